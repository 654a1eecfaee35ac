"""What building a tree needs as arrays: the stacks of tasks, the plan, the sample of messages, and scratch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs, record
from nearcast.engines.within.moving.move_cost import Pace

HEURISTIC_CUTS, OPTIMAL_CUTS, EVEN_CUTS = range(3)  # how words become cuts
BY_COST, WORDS_FIRST, SPACE_FIRST = range(3)  # what decides between words and space
MOST_JUDGED = 4096  # entries of a list that a choice is made from
MOST_FOLLOWED = 256  # entries of a list whose movement is looked at

TASK = record(
    ("x0", "f8"),  # region
    ("y0", "f8"),
    ("x1", "f8"),
    ("y1", "f8"),
    ("start", "i8"),  # its entries on the stack
    ("n_rows", "i8"),
    ("cursor", "i8"),  # the next of them, while counting and writing
    ("sample_start", "i8"),  # its messages on the stack of samples
    ("n_sample", "i8"),
    ("copies", "f8"),  # of an entry, on average, in all cells on this level
    ("part", "i4"),  # where the tree shall hang
    ("ways", "i4"),
    ("offset", "i4"),
    ("depth", "i4"),
    ("phase", "i4"),
    ("node", "i4"),  # made of it, once chosen
)


class BuildStacks(NamedTuple):
    """The tasks under way, and their lists."""

    state: Longs  # int64[3]: N_TASKS, BUDGET, N_TARGETS
    tasks: Array  # TASK[]
    stack: Array  # ENTRY[]: the lists of the tasks
    messages: Ints  # int32[]: sample messages that reach each task
    etas: Ints  # int32[]: how many of their words are used up
    targets: Ints  # int32[]: for each entry of the topmost task where those of the next one begin, then its parts
    target_ranks: Ints  # int32[]: beside them the ranks that led there
    fill: Longs  # int64[f + 2]: where the next entry of each part goes
    reached: Ints  # int32[f + 2]: parts that one sample message goes on to
    reached_etas: Ints  # int32[f + 2]: beside them how many of its words are used up there


N_TASKS, BUDGET, N_TARGETS = range(3)  # positions in `state`: tasks, rows left in this slice, targets in use


class Plan(NamedTuple):
    """How to build: the settings as numbers, and how subscriptions move."""

    fanout: int
    leaf: int
    visit: float  # what coming to a node or leaf costs, in entries met
    cuts: int  # HEURISTIC_CUTS, OPTIMAL_CUTS or EVEN_CUTS
    priority: int  # BY_COST, WORDS_FIRST or SPACE_FIRST
    copies: float  # most copies of an entry in the leaves that one word leads to, on average
    since: int  # leaves know messages after this sequence
    messages: float  # that arrive in an epoch
    displacements: Array  # float32[n_slots, 2]: dx, dy of a move of each subscription; none if nothing ever moved
    pace: Pace


class Sample(NamedTuple):
    """Messages that arrived recently, from which hit probabilities are taken."""

    xs: Floats  # float64[n]
    ys: Floats  # float64[n]
    word_start: Longs  # int64[n + 1]
    words: Ints  # int32[]: ranks of the words of each, increasing


class PartitionScratch(NamedTuple):
    """Scratch of a choice between words and space; `counts` and `hit_counts` are zero between calls."""

    counts: Ints  # int32[n_ranks]: entries by the rank of their word
    hit_counts: Ints  # int32[n_ranks]: sample messages that hold it
    words: Ints  # int32[n_ranks]: the different words of a list, as ranks, increasing
    weights: Longs  # int64[n_ranks]: beside them how many entries each has
    hits: Floats  # float64[n_ranks]: and the probability that a message holds it
    ends: Ints  # int32[f]: where the cuts end
    boxes: Floats  # float64[MOST_JUDGED, 4]: x0, y0, x1, y1 of the entries
    places: Floats  # float64[n_sampled, 2]: x, y of the sample messages
    sorted: Floats  # float64[2, 2 * MOST_JUDGED + n_sampled]: of either axis the lows, highs and places, each in order
    x_lines: Floats  # float64[f]
    y_lines: Floats  # float64[f]
    cells: Ints  # int32[2 * (f + 2) ** 2]: entries of each cell, then sample messages
    moves: Floats  # float64[MOST_FOLLOWED, 2]: dx, dy of the entries in an epoch
    drifts: Ints  # int32[2, f]: how many are in each cell before and after some epochs


def new_scratch(n_ranks: int, n_sampled: int, fanout: int) -> PartitionScratch:
    """Scratch for words of `n_ranks` ranks, `n_sampled` messages, and nodes of at most `fanout` parts."""
    by_rank = [np.zeros(n_ranks, dtype) for dtype in (np.int32, np.int32, np.int32, np.int64, np.float64)]
    lines = [np.zeros(fanout), np.zeros(fanout)]
    return PartitionScratch._make(
        [
            *by_rank,
            np.zeros(fanout, np.int32),
            np.zeros((MOST_JUDGED, 4)),
            np.zeros((n_sampled, 2)),
            np.zeros((2, 2 * MOST_JUDGED + n_sampled)),
            *lines,
            np.zeros(2 * (fanout + 2) ** 2, np.int32),
            np.zeros((MOST_FOLLOWED, 2)),
            np.zeros((2, fanout), np.int32),
        ]
    )
