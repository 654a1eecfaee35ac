"""Estimates what each subscription costs, in nanoseconds of CPU per message.

The models of [DKMSKS]: by words (`keyword_costs`), by places (`space_costs`), and by both for sets of subscriptions
(`weigh_in_box`). Each counts, in the sample, the messages that would touch a subscription, and multiplies their share
with what a touch costs a subscription of its kind. `own_parts` is by words and places too, for each by itself: it
separates what an index must look at from what it must check; `own_costs` is the sum of both.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Floats
from nearcast.engines.nearest.grid.insert import finest
from nearcast.jit import kernel
from nearcast.partition.footprint import COST_KINDS, Footprints, shares_of
from nearcast.partition.sample import Rectangle, Sample, count_word, count_words
from nearcast.space.cells import cell_edge, cell_index

# Nanoseconds of CPU by kind: for each look that is expected, at a message with one of the words in the cells around the
# box; and for each check, of one in the box itself. What follows from a check is in it: a result that changes, and,
# with a window, the message that expires later and has to be replaced.
# Measured over places, 50,000 of them live, on 2026-11-16 on one core of a busy Xeon at 2.8 GHz. Any word: by
# `python -m bench.touches`, 80,000 subscriptions. The others: by its first form, 40,000 subscriptions, which took off
# the time of an empty broker and not that of a quarter of the group. What the constants say was 0.5 to 1.3 of the CPU
# times of four groups of each kind.
LOOK_NS = {"within": 29.0, "similar": 134.0, "topk": 122.0, "nearest_all": 389.0, "nearest_any": 0.0}
CHECK_NS = {"within": 577.0, "similar": 0.0, "topk": 48.0, "nearest_all": 0.0, "nearest_any": 8177.0}
NO_WINDOW_LOOK_NS = {**LOOK_NS, "nearest_all": 449.0, "nearest_any": 73.0}
NO_WINDOW_CHECK_NS = {**CHECK_NS, "nearest_all": 89.0, "nearest_any": 835.0}
MESSAGE_NS = 5_000.0  # what a message costs a shard that holds nothing; 4,300 to 7,900 in three runs
LOOKS = np.array([[known[kind] for kind in COST_KINDS] for known in (NO_WINDOW_LOOK_NS, LOOK_NS)])
CHECKS = np.array([[known[kind] for kind in COST_KINDS] for known in (NO_WINDOW_CHECK_NS, CHECK_NS)])
UNITS = LOOKS[1] + CHECKS[1]  # of a touch, where the two are one


class GridInput(NamedTuple):
    """The grids of a worker's index."""

    bounds: tuple[float, float, float, float]
    deepest: int  # level of the smallest cells


@kernel
def weigh_words(footprints: Any, members: Any, counts: Any, n: Any, units: Any, costs: Any) -> Any:
    """Cost of each member: what a touch of it costs, times the shares of n messages that hold its words, summed.

    `counts` says how many hold each word; returns the sum of all costs.

    Paper: [DKMSKS] equations 1 and 5, which differ in what is counted.
    Departs: see `footprint.shares_of`; and a `Similar` that place alone can satisfy is touched by such messages too.
    """
    total = 0.0
    for i in members:
        touches = footprints.alone[i]
        for j in range(footprints.word_start[i], footprints.word_start[i + 1]):
            touches += (1 + counts[footprints.words[j]]) / (1 + n)
        costs[i] = units[footprints.kinds[i]] * touches
        total += costs[i]
    return total


@kernel
def enclose(footprints: Any, members: Any) -> Any:
    """The box around all members' boxes: R."""
    x0, y0, x1, y1 = math.inf, math.inf, -math.inf, -math.inf
    for i in members:
        x0, y0 = min(x0, footprints.boxes[i, 0]), min(y0, footprints.boxes[i, 1])
        x1, y1 = max(x1, footprints.boxes[i, 2]), max(y1, footprints.boxes[i, 3])
    return Rectangle(x0, y0, x1, y1)


@kernel
def weigh_in_box(footprints: Any, members: Any, sample: Any, box: Any, counts: Any, units: Any, costs: Any) -> Any:
    """Cost of each member when all of them are touched by what lies in one box; returns their sum.

    `counts`, one for each word and one more, are all 0 before and after.

    Paper: [DKMSKS] section 4.1, equations 4 to 6.
    """
    count_words(sample, box, counts, 1)
    total = weigh_words(footprints, members, counts, sample.ys.size, units, costs)
    count_words(sample, box, counts, -1)
    return total


@kernel
def cells_around(bounds: Any, box: Any, level: Any) -> Any:
    """The box of all places whose messages look into the grid cell of this level that a box is filed in.

    A message looks into every cell that a box around it can be filed in, boxes being no larger than cells: that of the
    box's middle, and half a cell more on each side. At level 0 there is one cell for everything.
    """
    if level == 0:
        return Rectangle(-math.inf, -math.inf, math.inf, math.inf)
    n = 1 << level
    column = cell_index(bounds[0], bounds[2], n, box.x0 / 2 + box.x1 / 2)
    row = cell_index(bounds[1], bounds[3], n, box.y0 / 2 + box.y1 / 2)
    half_x, half_y = (bounds[2] - bounds[0]) / (2 * n), (bounds[3] - bounds[1]) / (2 * n)
    return Rectangle(
        -math.inf if column == 0 else cell_edge(bounds[0], bounds[2], n, column) - half_x,
        -math.inf if row == 0 else cell_edge(bounds[1], bounds[3], n, row) - half_y,
        math.inf if column == n - 1 else cell_edge(bounds[0], bounds[2], n, column + 1) + half_x,
        math.inf if row == n - 1 else cell_edge(bounds[1], bounds[3], n, row + 1) + half_y,
    )


@kernel
def weigh_each(footprints: Any, sample: Any, grid: Any, looks: Any, checks: Any, parts: Any) -> None:
    """Cost of each subscription by itself: what is looked at in the cells around its box, and checked in the box.

    Both are written to `parts`, float64[n, 2].

    Paper: [DKMSKS] section 4.1, equations 4 and 5.
    Departs: R is that of the one subscription, and is taken twice, as the worker's index sees it and as it is. With the
    R of a set its members hardly differ in cost.
    """
    bounds, deepest = grid
    n_terms, n = sample.list_start.size - 1, 1 + sample.ys.size
    for i in range(footprints.rows.size):
        x0, y0, x1, y1 = footprints.boxes[i, 0], footprints.boxes[i, 1], footprints.boxes[i, 2], footprints.boxes[i, 3]
        box = Rectangle(x0, y0, x1, y1)
        reached = cells_around(bounds, box, min(footprints.levels[i], deepest))
        n_looked = n_checked = 0
        for j in range(footprints.word_start[i], footprints.word_start[i + 1]):
            n_looked += 1
            n_checked += 1
            if footprints.words[j] < n_terms:
                n_looked += count_word(sample, footprints.words[j], reached)
                n_checked += count_word(sample, footprints.words[j], box)
        kind, alone = footprints.kinds[i], footprints.alone[i]
        parts[i, 0] = looks[kind] * (n_looked / n + alone)
        parts[i, 1] = checks[kind] * (n_checked / n + alone)


def keyword_costs(footprints: Footprints, sample: Sample) -> Floats:
    """Cost by words alone; whoever a place can touch without a word is touched by every message.

    Paper: [DKMSKS] section 3.1.
    """
    costs = np.zeros(footprints.rows.size)
    anywhere = footprints._replace(alone=(footprints.alone > 0.0).astype(np.float64))
    weigh_words(anywhere, np.arange(costs.size), np.append(sample.holding, 0), sample.n, UNITS, costs)
    return costs


def space_costs(footprints: Footprints, sample: Sample) -> Floats:
    """Cost by places alone, each subscription by itself.

    Paper: [DKMSKS] section 3.2, new subscriptions.
    """
    shares = np.zeros(footprints.rows.size)
    shares_of(sample.layout, footprints.boxes, np.arange(shares.size), shares)
    costs: Floats = UNITS[footprints.kinds] * shares
    return costs


def own_parts(footprints: Footprints, sample: Sample, n_held: float, window: bool = True) -> Floats:
    """Costs of looks and of checks, each subscription by itself, in a shard that holds `n_held` subscriptions."""
    parts = np.zeros((footprints.rows.size, 2))
    grid = GridInput(sample.space.bounds, finest(int(n_held)))
    weigh_each(footprints, sample.layout, grid, LOOKS[int(window)], CHECKS[int(window)], parts)
    return parts


def own_costs(footprints: Footprints, sample: Sample, n_held: float, window: bool = True) -> Floats:
    """Cost by words and places, each by itself, in a shard that holds `n_held` subscriptions."""
    costs: Floats = own_parts(footprints, sample, n_held, window).sum(axis=1)
    return costs
