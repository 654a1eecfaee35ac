"""Subscriptions become entries of lists, one for each clause: a box to filter with, and its rarest words."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Ints, record
from nearcast.columns.fields.conditions import NO_CONDITION
from nearcast.columns.regions import BOX, CIRCLE
from nearcast.columns.times import FOREVER
from nearcast.jit import kernel
from nearcast.space.distance import EUCLIDEAN

SURE = 1 << 30  # in a tag: words and a place well inside the box are all that it takes to match
NEAR = 5e-7  # relative, more than all roundings of a box: a place nearer to its border needs the exact check

_LARGEST = 3.4e38  # of a 32-bit float
_LOOSE = 1.2e-7  # relative, twice the rounding to a 32-bit float

ENTRY = record(
    ("x0", "f4"),  # a box around the region, rounded outward; all longitudes where those of the region wrap
    ("y0", "f4"),
    ("x1", "f4"),
    ("y1", "f4"),
    ("slot", "i4"),
    ("tag", "i4"),  # where the clause begins, counted from the first of its subscription; with SURE, see there
    ("second", "i4"),  # its second and third rarest words; the rarest again where it has no more
    ("third", "i4"),
)


class Entries(NamedTuple):
    """Clauses ready to be filed."""

    rows: Array  # ENTRY[n]
    words: Ints  # int32[n]: the rarest word of each
    rows_at: Ints  # int32[n]: which of the subscriptions given it belongs to


@kernel
def round_down(value):
    """A 32-bit float that is not larger."""
    return np.float32(min(value - abs(value) * _LOOSE - 1e-37, _LARGEST))


@kernel
def round_up(value):
    """A 32-bit float that is not smaller."""
    return np.float32(max(value + abs(value) * _LOOSE + 1e-37, -_LARGEST))


@kernel
def well_inside(entry, x, y):
    """Does the place lie in the box of the entry, whatever the rounding?"""
    return (
        x - entry.x0 > abs(entry.x0) * NEAR + 1e-36
        and entry.x1 - x > abs(entry.x1) * NEAR + 1e-36
        and y - entry.y0 > abs(entry.y0) * NEAR + 1e-36
        and entry.y1 - y > abs(entry.y1) * NEAR + 1e-36
    )


@kernel
def count_clauses(rows, clauses):
    """How many clauses these rows of a subscription table have together."""
    n = 0
    for row in rows:
        at = row.clause_start
        while at < row.clause_start + row.clause_size:
            at += 2 + clauses[at] + clauses[at + 1]
            n += 1
    return n


@kernel
def count_words(rows, clauses, counts):
    """Add 1 to the count of every positive word of every clause."""
    for row in rows:
        at = row.clause_start
        while at < row.clause_start + row.clause_size:
            for i in range(at + 2, at + 2 + clauses[at]):
                counts[clauses[i]] += 1
            at += 2 + clauses[at] + clauses[at + 1]


@kernel
def rarer(counts, one, other):
    """Is the word `one` rarer than the other? Words that were not counted are rarest; ties go by number."""
    n_one = counts[one] if one < counts.size else 0
    n_other = counts[other] if other < counts.size else 0
    return n_one < n_other or (n_one == n_other and one < other)


@kernel
def enter_clauses(rows, slots, clauses, metric, counts, entries):
    """Write an entry for each clause of these subscriptions."""
    n = 0
    for i in range(slots.size):
        row = rows[i]
        x0, x1 = row.x0, row.x1
        if x0 > x1 or (row.region_kind == CIRCLE and metric != EUCLIDEAN):
            x0, x1 = -math.inf, math.inf
        at = row.clause_start
        while at < row.clause_start + row.clause_size:
            first = clauses[at + 2]
            second = third = -1
            for j in range(at + 3, at + 2 + clauses[at]):
                word = clauses[j]
                if rarer(counts, word, first):
                    first, second, third = word, first, second
                elif second < 0 or rarer(counts, word, second):
                    second, third = word, second
                elif third < 0 or rarer(counts, word, third):
                    third = word
            entry = entries.rows[n]
            entry.x0, entry.y0 = round_down(x0), round_down(row.y0)
            entry.x1, entry.y1 = round_up(x1), round_up(row.y1)
            entry.slot, entry.tag = slots[i], at - row.clause_start
            is_plain = row.region_kind == BOX and row.x0 <= row.x1 and row.expires == FOREVER
            if (
                is_plain
                and row.condition == NO_CONDITION
                and clauses[at] <= 3
                and clauses[at + 1] == 0
                and row.clause_size == 2 + clauses[at]
            ):
                entry.tag |= SURE
            entry.second, entry.third = second if second >= 0 else first, third if third >= 0 else first
            entries.words[n], entries.rows_at[n] = first, i
            n += 1
            at += 2 + clauses[at] + clauses[at + 1]


@kernel
def first_clause(clauses, start, length, present):
    """Where the first clause that holds begins, counted from `start`; -1 if none holds.

    An entry answers only if its own clause is the first: so a subscription is told once, whichever clauses hold.
    """
    at = start
    while at < start + length:
        middle = at + 2 + clauses[at]
        after = middle + clauses[at + 1]
        holds = True
        for i in range(at + 2, middle):
            if present[clauses[i]] == 0:
                holds = False
                break
        if holds:
            for i in range(middle, after):
                if present[clauses[i]] != 0:
                    holds = False
                    break
        if holds:
            return at - start
        at = after
    return -1


def entries_of(rows: Array, slots: Ints, clauses: Ints, metric: int, counts: Ints) -> Entries:
    """Entries of subscriptions whose table rows are `rows`; `counts` says how rare words are."""
    n = count_clauses(rows, clauses)
    entries = Entries(np.zeros(n, ENTRY), np.zeros(n, np.int32), np.zeros(n, np.int32))
    enter_clauses(rows, slots, clauses, metric, counts, entries)
    return entries
