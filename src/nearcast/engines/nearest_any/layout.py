"""The index as arrays: entries in chains by the hash of cell and word.

Cells belong to a pyramid of grids: level l has 2**l columns and rows, level 0 one cell for everything. An entry says
that a subscription is filed under one of its words in one cell. Chains hold whatever falls into their bucket; an entry
knows its whole hash, so that hardly any stranger is looked at, and one that is fails the exact check.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs, record
from nearcast.jit import kernel

DEEPEST = 14  # level of the finest grid that there can be
END = -1  # of a chain

ENTRY = record(("slot", "i4"), ("next", "i4"), ("hash", "i4"), ("generation", "i4"))

N_ENTRIES, FREE_ENTRY, N_DEAD, LEVELS = range(4)  # positions in `heads`: used, first free, dead, levels in use
TOUCHED, CANDIDATES, UNLINKED = range(4, 7)  # and counts of work
N_HEADS = 7


class GridLayout(NamedTuple):
    """All filed subscriptions."""

    heads: Longs  # int64[N_HEADS]
    buckets: Ints  # int32[power of 2]: first entry of each chain, or END
    entries: Array  # ENTRY[]
    levels: Ints  # int32[n_terms]: bit l is set where something was filed under the word at level l


@kernel
def hash_of(cell, term):
    """31 bits of a cell's code, its level included, and a word."""
    mixed = np.int64(cell) * 0x2C9277B5
    mixed = ((mixed ^ (mixed >> 32)) & 0x7FFFFFFF) ^ np.int64(term)
    mixed = (mixed & 0x7FFFFFFF) * 0x5F356495
    return (mixed ^ (mixed >> 29)) & 0x7FFFFFFF


@kernel
def cell_code(level, column, row):
    """One number for a cell of any level up to DEEPEST."""
    return ((np.int64(1) << level | row) << level) | column
