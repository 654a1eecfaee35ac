"""An open benchmark of standing questions about words and places: files for anybody, and a checker of their answers.

A *task* (`workload.py`) is one kind of question at one size: a folder with `task.json`, `subscriptions` and `messages`
as JSON lines or Parquet. An *entry* is any program that reads a task and writes the updates that it causes. The checker
(`check.py`) reads the task and these answers alone, never the program, and refuses whatever is missing, invented or out
of time; it compares with a brute force of its own (`truth.py`), which shares no code with Nearcast.

`python -m bench.open make | answer | check` does each step; docs/open-benchmark.md has the rules.
"""
