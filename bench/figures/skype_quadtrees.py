"""Skype: a quadtree for each word, as built here, against one for all words, as in the paper; arrivals."""

from bench.cases.topk import ONE_QUADTREE, SMALL, TINY, WORKLOAD, Sliding
from bench.claims import Ahead
from bench.count_claims import Fewer
from bench.figure import Figure

FIGURE = Figure(
    title="TopK, one quadtree or one for each word",
    workload=f"{WORKLOAD}; arrivals alone; by the most subscriptions of a cell",
    expected="a quadtree for each word is ahead at every size of cells, and its messages come to fewer cells",
    bars=(
        Ahead("one for each word", ("one for all",)),
        Fewer("cells", "one for each word", ("one for all",), "cells"),
    ),
    sweep=("cell", (250, 1_000, 4_000, 16_000)),
    series={"one for all": (Sliding, {"engine": ONE_QUADTREE}), "one for each word": (Sliding, {})},
    repeats=3,
    baseline="one for all",
    sizes={**SMALL, "part": "arrivals"},
    tiny={**TINY, "cell": (20,)},
    work={"cells": ("cells", ""), "postings looked at": ("visited", "")},
)
