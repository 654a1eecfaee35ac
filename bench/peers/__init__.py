"""What a user would pick instead, side by side with Nearcast in one run: PostGIS, DuckDB, SQLite's R*Tree, chDB.

None of them has standing questions. So subscriptions are rows of a table, and each batch of messages is a question that
joins the two, written as somebody who knows the system would write it: with its spatial index where it has one, by the
rarest word of a subscription where words select more. For the k best, all results are computed again after each batch
over the messages that are live, which is what these systems offer; the difference to the results before is left to the
user, and not timed.

All take the tasks of the open benchmark (`bench/open`), batch by batch in turn. What a system answers is compared with
Nearcast's answers; a wrong answer is not recorded. `python -m bench.peers` runs it; `make peers` installs what it needs
first.
"""
