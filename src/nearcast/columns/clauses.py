"""Clauses of an expression as one row of numbers: how many words each wants and refuses, then those words."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs
from nearcast.text.vocabulary import Terms


def split_clauses(packed: Ints) -> list[tuple[Ints, Ints]]:
    """Positive and negative terms of every clause in a packed row."""
    clauses, at = [], 0
    while at < packed.size:
        middle = at + 2 + int(packed[at])
        after = middle + int(packed[at + 1])
        clauses.append((packed[at + 2 : middle], packed[middle:after]))
        at = after
    return clauses


def pack_clauses(terms: Terms, n_clauses: Ints) -> tuple[Ints, Array]:
    """Clauses as the table keeps them, and how many entries each subscription has of them."""
    lengths = np.diff(terms.row_start)
    positive, negative = lengths[0::2], lengths[1::2]
    sizes = 2 + positive + negative
    starts = np.cumsum(sizes) - sizes
    packed = np.empty(int(sizes.sum()), dtype=np.int32)
    is_term = np.ones(packed.size, dtype=bool)
    is_term[starts] = is_term[starts + 1] = False
    packed[starts], packed[starts + 1] = positive, negative
    packed[is_term] = terms.terms
    first = np.cumsum(n_clauses) - n_clauses
    return packed, np.add.reduceat(sizes, first) if first.size else sizes


def unpack_clauses(packed: Ints, sizes: Longs) -> tuple[Ints, Longs, Array]:
    """What `pack_clauses` was given: clauses per row, the lengths of all their lists, and which entries are terms."""
    ends = np.cumsum(sizes)
    at, end, found = ends - sizes, ends, []
    while at.size:
        found.append(at)
        at = at + 2 + packed[at] + packed[at + 1]
        at, end = at[at < end], end[at < end]
    heads = np.sort(np.concatenate(found)) if found else ends
    is_term = np.ones(packed.size, dtype=bool)
    is_term[heads] = is_term[heads + 1] = False
    n_clauses = np.diff(np.searchsorted(heads, ends), prepend=0).astype(np.int32)
    return n_clauses, np.stack([packed[heads], packed[heads + 1]], axis=1).reshape(-1).astype(np.int64), is_term
