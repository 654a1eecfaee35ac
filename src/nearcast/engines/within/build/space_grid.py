"""Cuts a node into a grid: finds the lines from boxes and sample messages, and estimates its cost: kernels.

Slab i holds the coordinates from `lines[i - 1]` up to, but without, `lines[i]`; the first and the last are open-ended.
The slab of a coordinate is the number of lines at or before it, so a message lies in exactly one cell, and a closed box
covers exactly the cells from its low corner's to its high corner's, borders included.

Paper: [APTREE] section 3.3.3.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints
from nearcast.jit import kernel

KAPPA = 16.0  # sample messages that the assumption of evenly spread messages counts for


@kernel
def cell_of(lines: Floats, first: int, n: int, v: float) -> int:
    """Number of `lines[first : first + n]`, which increase, at or before `v`."""
    base = first
    while n > 1:
        half = n >> 1
        if lines[base + half - 1] <= v:
            base += half
        n -= half
    if n == 1 and lines[base] <= v:
        base += 1
    return base - first


@kernel
def n_before(values: Floats, v: float) -> int:
    """Number of sorted `values` below `v`."""
    low, high = 0, values.size
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < v:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def share_of(start: float, end: float, lower: float, upper: float) -> float:
    """Part of [lower, upper] that lies in [start, end]; all of it if it is but a point.

    Taken from halves, as the difference of two coordinates may overflow.
    """
    whole = 0.5 * upper - 0.5 * lower
    if whole <= 0.0:
        return 1.0
    return (0.5 * min(max(end, lower), upper) - 0.5 * min(max(start, lower), upper)) / whole


@kernel
def chance(n_here: int, n_places: int, share: float) -> float:
    """Probability that a message which reaches a node goes on to a part of it.

    Paper: [APTREE] section 3.3.1: the share of the sample messages, or of the area when there are none.
    Departs: both at once. A part that none of few messages fell into is not free, and a long sample outweighs the area.
    """
    return (n_here + KAPPA * share) / (n_places + KAPPA)


@kernel
def next_border(lows: Floats, highs: Floats, low: int, high: int) -> Any:
    """The next place where an interval begins or has just ended, from these positions on; infinite after the last.

    Between two such places the intervals on either side of a line are the same, so no line between them is cheaper
    than both.
    """
    if high < highs.size and (low == lows.size or highs[high] < lows[low]):
        return np.nextafter(highs[high], np.inf)
    if low < lows.size:
        return lows[low]
    return np.inf


@kernel
def even_lines(
    lows: Floats, highs: Floats, places: Floats, lower: float, upper: float, n_slabs: int, lines: Floats
) -> int:
    """Write lines evenly spread over ends of intervals and messages alike; returns how many.

    Paper: [APTREE] section 3.3.3.
    Departs: the slabs hold the same sum of √(ends * probability) over the stretches between ends, not the same number
    of centres. Where both are dense a slab must be narrow; where either is missing it costs little. Improved from there
    slabs end 0 to 16 % above the cheapest, from centres up to 6 times as high (400 intervals in 14 slabs, messages
    like them or elsewhere, 2026-11-16), and up to 30 times if most intervals are equal: their centres leave one line,
    their ends two, which fence them in. A slab aims at its share of what is left, as in `even_cuts`.
    """
    left, n_left = 0.0, 0
    n_lines = 0
    for sweep in range(2):
        low, high = n_before(lows, np.nextafter(lower, np.inf)), n_before(highs, lower)
        place = n_before(places, lower)
        held, since = 0.0, lower
        border = next_border(lows, highs, low, high)
        while border < upper and n_lines < n_slabs - 1:
            n_ends, n_here = 0, 0
            while low < lows.size and lows[low] <= border:
                low += 1
                n_ends += 1
            while high < highs.size and highs[high] < border:
                high += 1
                n_ends += 1
            while place < places.size and places[place] < border:
                place += 1
                n_here += 1
            step = math.sqrt(n_ends * chance(n_here, places.size, share_of(since, border, lower, upper)))
            held += step
            since = border
            if sweep == 0:
                left += step
                n_left += 1
            else:
                # Past the share, or every border is needed.
                if (2.0 * held - step) * (n_slabs - n_lines) >= 2.0 * left or n_left < n_slabs - n_lines:
                    lines[n_lines] = border
                    n_lines += 1
                    left -= held
                    held = 0.0
                n_left -= 1
            border = next_border(lows, highs, low, high)
    return n_lines


@kernel
def best_line(
    lows: Floats, highs: Floats, places: Floats, lower: float, upper: float, start: float, end: float, line: float
) -> float:
    """The border between two slabs that reach from `start` to `end` for which they cost least; else `line`.

    The intervals of a slab [a, b) are those that begin before b without those that end before a.
    """
    before, n_begun = n_before(highs, start), n_before(lows, end)
    first_place, end_place = n_before(places, start), n_before(places, end)
    inner, outer = max(start, lower), min(end, upper)
    low, high, place = n_before(lows, np.nextafter(inner, np.inf)), n_before(highs, inner), first_place
    best_cost = np.inf
    border = next_border(lows, highs, low, high)
    while border < outer:
        while high < highs.size and highs[high] < border:
            high += 1
        while place < end_place and places[place] < border:
            place += 1
        left_hit = chance(place - first_place, places.size, share_of(start, border, lower, upper))
        right_hit = chance(end_place - place, places.size, share_of(border, end, lower, upper))
        cost = (low - before) * left_hit + (n_begun - high) * right_hit
        if cost < best_cost:
            line, best_cost = border, cost
        while low < lows.size and lows[low] <= border:
            low += 1
        border = next_border(lows, highs, low, high)
    return line


@kernel
def improved_lines(
    lows: Floats, highs: Floats, places: Floats, lower: float, upper: float, n_slabs: int, lines: Floats
) -> int:
    """Write the lines that cut one dimension of a node into slabs, increasing; returns how many, at most n_slabs - 1.

    `lows` and `highs` are the ends of the intervals, each sorted by itself, `places` the sorted coordinates of sample
    messages; an even selection of them will do. Lines lie strictly between `lower` and `upper`, the ends of the node.

    Paper: [APTREE] section 3.3.3: even slabs, then as algorithm 3.
    Departs: as `even_lines` and `chance`.
    """
    if not 0.5 * upper - 0.5 * lower > 0.0:
        return 0
    n_lines = even_lines(lows, highs, places, lower, upper, n_slabs, lines)
    start = -np.inf
    for i in range(n_lines):
        end = lines[i + 1] if i + 1 < n_lines else np.inf
        lines[i] = best_line(lows, highs, places, lower, upper, start, end, lines[i])
        start = lines[i]
    return n_lines


@kernel
def grid_cost(
    boxes: Array, places: Array, region: Any, extent: Any, x_lines: Floats, y_lines: Floats, weights: Ints, counts: Ints
) -> float:
    """Subscriptions that a message which reaches the node is expected to meet in the cells between these lines.

    `boxes` are rows x0, y0, x1, y1, `places` rows x, y; `region` and `extent` are each a `Rectangle`; the region may
    be infinite. The int32 scratch `weights` needs (columns + 1) * (rows + 1) entries, `counts` columns * rows.

    Paper: [APTREE] section 3.3.1, equation 1.
    Departs: adds the boxes that cover the whole region, which go to the dummy cell, as every message meets them.
    """
    n_columns, n_rows = x_lines.size + 1, y_lines.size + 1
    stride = n_rows + 1
    weights[: (n_columns + 1) * stride] = 0
    counts[: n_columns * n_rows] = 0
    n_dummies = 0
    for i in range(boxes.shape[0]):
        x0, y0, x1, y1 = boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3]
        if x0 <= region.x0 and y0 <= region.y0 and x1 >= region.x1 and y1 >= region.y1:
            n_dummies += 1
            continue
        left, right = cell_of(x_lines, 0, n_columns - 1, x0), cell_of(x_lines, 0, n_columns - 1, x1) + 1
        bottom, top = cell_of(y_lines, 0, n_rows - 1, y0), cell_of(y_lines, 0, n_rows - 1, y1) + 1
        weights[left * stride + bottom] += 1
        weights[right * stride + bottom] -= 1
        weights[left * stride + top] -= 1
        weights[right * stride + top] += 1
    for i in range(places.shape[0]):
        column, row = cell_of(x_lines, 0, n_columns - 1, places[i, 0]), cell_of(y_lines, 0, n_rows - 1, places[i, 1])
        counts[column * n_rows + row] += 1
    cost = float(n_dummies)
    for column in range(n_columns):
        start = x_lines[column - 1] if column > 0 else -np.inf
        end = x_lines[column] if column + 1 < n_columns else np.inf
        width = share_of(start, end, extent.x0, extent.x1)
        change = 0
        for row in range(n_rows):
            start = y_lines[row - 1] if row > 0 else -np.inf
            end = y_lines[row] if row + 1 < n_rows else np.inf
            at = column * stride + row
            change += weights[at]
            weight = change
            if column > 0:
                weight += weights[at - stride]
            weights[at] = weight
            area = width * share_of(start, end, extent.y0, extent.y1)
            cost += weight * chance(counts[column * n_rows + row], places.shape[0], area)
    return cost
