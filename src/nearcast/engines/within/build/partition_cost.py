"""Chooses the best cuts and the best grid for a list of entries, and estimates what either costs: kernels.

A cost is the number of entries that a message which reaches the node is expected to meet. A long list is judged by at
most about MOST_JUDGED of its entries, evenly spread, so that a choice never takes long.

Paper: [APTREE] section 3.3.1.
"""

from __future__ import annotations

import math
from typing import Any

from nearcast.columns.arena import Array, Floats, Ints
from nearcast.engines.within.build.keyword_cuts import even_cuts, improved_cuts, optimal_cuts
from nearcast.engines.within.build.layout import (
    EVEN_CUTS,
    MOST_FOLLOWED,
    MOST_JUDGED,
    OPTIMAL_CUTS,
    BuildStacks,
    PartitionScratch,
    Plan,
    Sample,
)
from nearcast.engines.within.build.space_grid import KAPPA, grid_cost, improved_lines, n_before
from nearcast.engines.within.layout import NO_WORD, Rectangle
from nearcast.engines.within.moving.move_cost import penalty
from nearcast.engines.within.paths import word_at
from nearcast.jit import allocating, kernel

_ROWS_PER_PART = 3  # least mean number of entries of a cut or cell; fewer would cost more memory than they save time
_OVER = 1.25  # lines are put where few boxes are met, so that more than by chance can be tried


@allocating
def count_words(
    builder: BuildStacks, task: Any, ranks: Ints, lowest: int, scratch: PartitionScratch
) -> tuple[int, int]:
    """Count the words at a task's offset over some of its entries; how many words, and how many entries had none."""
    step = max(1, task.n_rows // MOST_JUDGED)
    n_words, n_dummies = 0, 0
    for i in range(task.start, task.start + task.n_rows, step):
        word = word_at(builder.stack[i], task.offset)
        if word == NO_WORD:
            n_dummies += 1
            continue
        at = ranks[word] - lowest
        if scratch.counts[at] == 0:
            scratch.words[n_words] = at
            n_words += 1
        scratch.counts[at] += 1
    scratch.words[:n_words].sort()
    return n_words, n_dummies


@kernel
def count_hits(builder: BuildStacks, task: Any, lowest: int, sample: Sample, scratch: PartitionScratch) -> None:
    """Count in how many of the sample messages that reach a task each of the counted words can still be used."""
    for i in range(task.sample_start, task.sample_start + task.n_sample):
        message = builder.messages[i]
        for j in range(sample.word_start[message] + builder.etas[i], sample.word_start[message + 1]):
            at = sample.words[j] - lowest
            if scratch.counts[at] > 0:
                scratch.hit_counts[at] += 1


@kernel
def choose_cuts(
    builder: BuildStacks, task: Any, ranks: Ints, lowest: int, plan: Plan, sample: Sample, scratch: PartitionScratch
) -> tuple[float, int, int]:
    """Cut the words of a list at its offset; the cost, and the numbers of cuts (their ends are in `ends`) and words.

    Paper: [APTREE] section 3.3.1, p(w) from the messages that reach the node, or from subscriptions; section 3.3.2.
    Departs: the cost is that of every word by itself, as cuts of several words can be cut again at the same offset: by
    the cost of 200 cuts a long list of many words would go to space first, though words tell more. Few messages and
    subscriptions are blended, as for cells. Cuts have some entries each. Coming to a part costs something by itself.
    """
    n_words, n_dummies = count_words(builder, task, ranks, lowest, scratch)
    count_hits(builder, task, lowest, sample, scratch)
    n_counted = 0
    for i in range(n_words):
        n_counted += scratch.counts[scratch.words[i]]
    for i in range(n_words):
        at = scratch.words[i]
        scratch.weights[i] = scratch.counts[at]
        scratch.hits[i] = (scratch.hit_counts[at] + KAPPA * scratch.counts[at] / n_counted) / (task.n_sample + KAPPA)
        scratch.counts[at] = scratch.hit_counts[at] = 0
        scratch.words[i] = at + lowest
    if n_words == 0:
        return math.inf, 0, 0
    most = min(plan.fanout, max(2, task.n_rows // _ROWS_PER_PART))
    if plan.cuts == OPTIMAL_CUTS:
        n_cuts = optimal_cuts(scratch.weights, scratch.hits, n_words, most, scratch.ends)
    elif plan.cuts == EVEN_CUTS:
        n_cuts = even_cuts(scratch.weights, scratch.hits, n_words, most, scratch.ends)
    else:
        n_cuts = improved_cuts(scratch.weights, scratch.hits, n_words, most, scratch.ends)
    cost, n_visits = float(n_dummies), 1.0 if n_dummies > 0 else 0.0
    for i in range(n_words):
        cost += scratch.weights[i] * min(1.0, scratch.hits[i])
        n_visits += scratch.hits[i]
    return cost * task.n_rows / (n_counted + n_dummies) + plan.visit * n_visits, n_cuts, n_words


@allocating
def put_sorted(values: Array, column: int, n: int, out: Floats) -> None:
    """Write one column of `values` in order."""
    for i in range(n):
        out[i] = values[i, column]
    out[:n].sort()


@kernel
def with_box(extent: Rectangle, box: Floats) -> Rectangle:
    """The extent, made so large that it holds the finite sides of a box."""
    return Rectangle(
        min(extent.x0, box[0]) if box[0] > -math.inf else extent.x0,
        min(extent.y0, box[1]) if box[1] > -math.inf else extent.y0,
        max(extent.x1, box[2]) if box[2] < math.inf else extent.x1,
        max(extent.y1, box[3]) if box[3] < math.inf else extent.y1,
    )


@kernel
def inside_task(extent: Rectangle, task: Any) -> Rectangle:
    """What of an extent lies inside the region of a task."""
    return Rectangle(max(extent.x0, task.x0), max(extent.y0, task.y0), min(extent.x1, task.x1), min(extent.y1, task.y1))


@kernel
def sort_axis(n: int, n_places: int, axis: int, scratch: PartitionScratch) -> None:
    """Put the ends of boxes and the places along an axis in order."""
    out = scratch.sorted[axis]
    put_sorted(scratch.boxes, axis, n, out[:n])
    put_sorted(scratch.boxes, axis + 2, n, out[n : 2 * n])
    put_sorted(scratch.places, axis, n_places, out[2 * n : 2 * n + n_places])


@kernel
def choose_lines(
    n: int, n_places: int, axis: int, lower: float, upper: float, n_slabs: int, scratch: PartitionScratch, lines: Floats
) -> int:
    """Lines across an axis that is in order; returns how many."""
    ends = scratch.sorted[axis]
    return improved_lines(ends[:n], ends[n : 2 * n], ends[2 * n : 2 * n + n_places], lower, upper, n_slabs, lines)


@kernel
def most_slabs(n: int, most_copies: float, scratch: PartitionScratch) -> float:
    """About how many slabs either axis may have, so that an entry stands in `most_copies` cells on average.

    A line is as likely to meet a box as the lower end of another box is to lie inside it.
    """
    x_lows, y_lows = scratch.sorted[0, :n], scratch.sorted[1, :n]
    by_x, by_y, by_both = 0.0, 0.0, 0.0
    for i in range(n):
        box = scratch.boxes[i]
        x_share = (n_before(x_lows, box[2]) - n_before(x_lows, box[0])) / n
        y_share = (n_before(y_lows, box[3]) - n_before(y_lows, box[1])) / n
        by_x, by_y, by_both = by_x + x_share / n, by_y + y_share / n, by_both + x_share * y_share / n
    half = 0.5 * (by_x + by_y)
    # by_both * lines**2 + 2 * half * lines + 1 = most_copies
    return 1.0 + (most_copies - 1.0) / (half + math.sqrt(half * half + by_both * (most_copies - 1.0)) + 1e-9)


@kernel
def choose_grid(
    builder: BuildStacks, task: Any, plan: Plan, sample: Sample, scratch: PartitionScratch
) -> tuple[float, int, int]:
    """Cut the region of a list into cells; returns the cost and the numbers of x and y lines, which are in `scratch`.

    Paper: [APTREE] section 3.3.3.
    Departs: cells have some entries each, and are coarser still while entries would be copied too often. Coming to a
    cell costs something by itself.
    """
    step = max(1, task.n_rows // MOST_JUDGED)
    n = 0
    extent = Rectangle(math.inf, math.inf, -math.inf, -math.inf)
    for i in range(task.start, task.start + task.n_rows, step):
        if n == MOST_JUDGED:
            break
        entry = builder.stack[i]
        box = scratch.boxes[n]
        box[0], box[1], box[2], box[3] = entry.x0, entry.y0, entry.x1, entry.y1
        extent = with_box(extent, box)
        n += 1
    extent = inside_task(extent, task)
    for i in range(task.n_sample):
        message = builder.messages[task.sample_start + i]
        scratch.places[i, 0], scratch.places[i, 1] = sample.xs[message], sample.ys[message]
    for axis in range(2):
        sort_axis(n, task.n_sample, axis, scratch)
    region = Rectangle(task.x0, task.y0, task.x1, task.y1)
    side = int(math.sqrt(min(plan.fanout, max(4, task.n_rows // _ROWS_PER_PART))))
    side = min(side, max(2, int(_OVER * most_slabs(n, max(1.0, plan.copies / task.copies), scratch))))
    while side >= 2:
        n_x = choose_lines(n, task.n_sample, 0, extent.x0, extent.x1, side, scratch, scratch.x_lines)
        n_y = choose_lines(n, task.n_sample, 1, extent.y0, extent.y1, side, scratch, scratch.y_lines)
        cost = grid_cost(
            scratch.boxes[:n], scratch.places[: task.n_sample], region, extent, scratch.x_lines[:n_x],
            scratch.y_lines[:n_y], scratch.cells[: (n_x + 2) * (n_y + 2)], scratch.cells[(n_x + 2) * (n_y + 2) :],
        )  # fmt: skip
        n_copies = 0
        for column in range(n_x + 1):
            for row in range(n_y + 1):
                n_copies += scratch.cells[column * (n_y + 2) + row]
        if n_copies * task.copies <= plan.copies * n:
            return cost * task.n_rows / n + plan.visit, n_x, n_y
        side = side * 2 // 3
    return math.inf, 0, 0


@kernel
def cost_of_moves(builder: BuildStacks, task: Any, plan: Plan, n_words: int, scratch: PartitionScratch) -> float:
    """What movement adds in an epoch to the cost of cutting a list by space.

    Paper: [APTREE] section 4.3.1, equation 15.
    """
    displacements, pace = plan.displacements, plan.pace
    n = 0
    extent = Rectangle(math.inf, math.inf, -math.inf, -math.inf)
    for i in range(task.start, task.start + task.n_rows, max(1, -(-task.n_rows // MOST_FOLLOWED))):
        entry, box, move = builder.stack[i], scratch.boxes[n], scratch.moves[n]
        box[0], box[1], box[2], box[3] = entry.x0, entry.y0, entry.x1, entry.y1
        extent = with_box(extent, box)
        move[0], move[1] = 0.0, 0.0
        if entry.slot < displacements.shape[0]:
            move[0] = displacements[entry.slot, 0] / pace.update_epochs
            move[1] = displacements[entry.slot, 1] / pace.update_epochs
        n += 1
    extent = inside_task(extent, task)
    return penalty(
        scratch.boxes[:n], scratch.moves[:n], extent, pace, task.n_rows, n_words, task.depth + 1, scratch.drifts
    )
