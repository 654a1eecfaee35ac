"""Random rounds without end: each has a name and a seed, and raises if anything is not as it should be.

`make fuzz` runs rounds of every kind in turn, with bounds checked and new seeds, for as many minutes as asked. A round
that fails, crashes or hangs is printed with its seed; `make fuzz SEED=crowd-123` runs that one round again. The kinds
are in the table of `rounds.py`. `make test` runs a few fixed ones.

A stream is a list of single events (`streams.py`), cut into batches at random. Four ways (`ways.py`) take it: batch by
batch, one by one, by brute force, and as brokers that are stopped and restored, or pass their subscriptions on to each
other. What they tell every subscriber, what they refuse and what they answer must be the same.
"""
