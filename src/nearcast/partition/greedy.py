"""Assigns costs one after another, always to the taker with the least to do: DkM-SKS algorithms 1 and 3."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Floats, Ints, Longs
from nearcast.jit import kernel


@kernel
def assign_costs(costs: Any, loads: Any, heap: Any, takers: Any) -> None:
    """Give each cost in turn to the smallest load, of equal ones to the first; loads grow by what they take.

    `heap` is room for the numbers of all takers.

    Paper: [DKMSKS] algorithm 1, lines 3 to 5; algorithm 3, lines 5 to 7.
    """
    size = loads.size
    for taker in range(size):
        heap[taker] = taker
    for top in range(size // 2 - 1, -1, -1):
        sift_down(heap, loads, top)
    for i in range(costs.size):
        takers[i] = heap[0]
        loads[heap[0]] += costs[i]
        sift_down(heap, loads, 0)


@kernel
def sift_down(heap: Any, loads: Any, at: Any) -> None:
    """Let the entry at this place of the heap sink to where it belongs."""
    moved = heap[at]
    while 2 * at + 1 < heap.size:
        child = 2 * at + 1
        if child + 1 < heap.size and comes_first(loads, heap[child + 1], heap[child]):
            child += 1
        if not comes_first(loads, heap[child], moved):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = moved


@kernel
def comes_first(loads: Any, one: Any, other: Any) -> Any:
    """Does one taker come before the other: less to do, or as much and a smaller number?"""
    return loads[one] < loads[other] or (loads[one] == loads[other] and one < other)


@kernel
def assign_cost_parts(parts: Any, sums: Any, totals: Any, takers: Any) -> None:
    """Give each cost, which has several parts, in turn to whom it makes least uneven; `sums` and `totals` grow.

    That is where the squares of a taker's sums, each as a share of the total so far, grow least; of equal ones the
    first.

    Departs: [DKMSKS] algorithm 3 has one number for each cost. What is even in the sum of two parts can be uneven in
    both.
    """
    n_takers, n_parts = sums.shape
    for i in range(parts.shape[0]):
        for part in range(n_parts):
            totals[part] += parts[i, part]
        best, least = 0, np.inf
        for taker in range(n_takers):
            growth = 0.0
            for part in range(n_parts):
                if parts[i, part] > 0.0:
                    share = parts[i, part] / totals[part]
                    growth += share * (share + 2.0 * sums[taker, part] / totals[part])
            if growth < least:
                best, least = taker, growth
        takers[i] = best
        for part in range(n_parts):
            sums[best, part] += parts[i, part]


def assign_parts(parts: Floats, sums: Floats) -> Ints:
    """The taker of each cost, in the order given, so that every part is spread evenly; `sums` of takers grow."""
    takers = np.empty(parts.shape[0], np.int32)
    assign_cost_parts(parts, sums, sums.sum(axis=0), takers)
    return takers


def assign_in_turn(costs: Floats, loads: Floats) -> Ints:
    """The taker of each cost, in the order given; `loads` grow."""
    takers = np.empty(costs.size, np.int32)
    assign_costs(costs, loads, np.empty(loads.size, np.int32), takers)
    return takers


def heaviest_first(costs: Floats) -> Longs:
    """Positions by falling cost; equal ones as they stand."""
    return np.argsort(-costs, kind="stable")


def assign_heaviest_first(costs: Floats, loads: Floats) -> Ints:
    """The taker of each cost, heaviest first; `loads` grow.

    Paper: [DKMSKS] algorithm 1.
    """
    order = heaviest_first(costs)
    takers = np.empty(costs.size, np.int32)
    takers[order] = assign_in_turn(costs[order], loads)
    return takers
