"""Benchmarks: what is measured, how, and what was found.

A *figure* (`figures/`) declares a workload, a sweep, the series that are drawn and the shape expected of them. A
*series* is a *case* (`cases/`) with its settings: something that can be prepared, judged and repeated. A *point* is one
value of the sweep.

`runner.py` measures a point: every series in a fresh process of its own, all of them alive together and repeated in
turn (A B A B), so that a noisy machine is noisy for all alike. Before anything is timed the case is compared with a
brute force on a sample (`judge.py`); a wrong answer is not recorded. `record.py` appends one JSON line for each series
to `results/`. `plot.py` only reads those lines; `verdict.py` tries the *claims* of a figure on them (`claims.py`,
`count_claims.py`), and `pages.py` writes the pages of the docs. `open/` is a benchmark that anybody can enter, `peers/`
puts other systems beside Nearcast. `guards.py` runs every figure in miniature and compares its counts of
work, which do not depend on the machine.

`nearcast bench` is the command for all of it.
"""
