"""Makes the entries of subscriptions: one for each clause, with a box rounded outward and its rarest words: kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs
from nearcast.columns.fields.conditions import NO_CONDITION, ConditionLayout
from nearcast.columns.regions import BOX
from nearcast.columns.times import FOREVER
from nearcast.engines.within.layout import (
    ASKS,
    CONDITION_BITS,
    LARGEST_SHORT,
    MANY,
    MORTAL,
    N_STEERING,
    N_WORDS,
    NO_WORD,
    PLAIN,
    UNRANKED,
)
from nearcast.jit import kernel
from nearcast.space.rounding import above, below


@kernel
def next_clause(clauses: Ints, at: int) -> Any:
    """Where the clause after the one at `at` begins."""
    return at + 2 + clauses[at] + clauses[at + 1]


@kernel
def n_clauses(rows: Array, clauses: Ints) -> int:
    """Number of clauses of all these subscriptions."""
    n = 0
    for i in range(rows.size):
        at = rows[i].filed_start
        end = at + rows[i].filed_size
        while at < end:
            at = next_clause(clauses, at)
            n += 1
    return n


@kernel
def rank_words(rows: Array, clauses: Ints, ranks: Ints, lowest: int) -> int:
    """Give a rank to every positive word that has none: it is the rarest so far. Returns the lowest rank then."""
    for i in range(rows.size):
        at = rows[i].filed_start
        end = at + rows[i].filed_size
        while at < end:
            for j in range(at + 2, at + 2 + clauses[at]):
                if ranks[clauses[j]] == UNRANKED:
                    lowest -= 1
                    ranks[clauses[j]] = lowest
            at = next_clause(clauses, at)
    return lowest


@kernel
def count_terms(table: Any, slots: Ints, counts: Longs) -> None:
    """Add to counts[term] the number of clauses of these subscriptions that ask for it."""
    clauses = table.clauses
    for slot in slots:
        at = table.rows[slot].filed_start
        end = at + table.rows[slot].filed_size
        while at < end:
            for j in range(at + 2, at + 2 + clauses[at]):
                counts[clauses[j]] += 1
            at = next_clause(clauses, at)


@kernel
def put_words(entry: Any, clauses: Ints, first: int, n: int, ranks: Ints) -> None:
    """Write the rarest words of a clause into an entry, rarest first."""
    worst = UNRANKED
    entry.word0 = entry.word1 = entry.word2 = entry.word3 = NO_WORD
    for i in range(min(n, N_STEERING)):
        best, rank = NO_WORD, 0
        for j in range(first, first + n):
            own = ranks[clauses[j]]
            if own > worst and (best == NO_WORD or own < rank):
                best, rank = clauses[j], own
        worst = rank
        if i == 0:
            entry.word0 = best
        elif i == 1:
            entry.word1 = best
        elif i == 2:
            entry.word2 = best
        else:
            entry.word3 = best


@kernel
def make_entries(rows: Array, slots: Ints, clauses: Ints, conditions: ConditionLayout, ranks: Ints, out: Array) -> int:
    """Write the entries of subscriptions; `rows[i]` is the row of slots[i], as it is or was."""
    n = 0
    for i in range(rows.size):
        row = rows[i]
        at = row.filed_start
        end = at + row.filed_size
        first = n
        keyed = row.filed_start != row.clause_start
        asks = row.condition != NO_CONDITION and not (keyed and conditions.rows[row.condition].decided)
        while at < end:
            entry = out[n]
            wraps = row.x0 > row.x1
            entry.x0 = np.float32(-np.inf) if wraps else below(row.x0)
            entry.x1 = np.float32(np.inf) if wraps else above(row.x1)
            entry.y0, entry.y1 = below(row.y0), above(row.y1)
            entry.slot = slots[i]
            n_words = clauses[at]
            put_words(entry, clauses, at + 2, n_words, ranks)
            tags = n - first | min(n_words, N_STEERING) << N_WORDS
            if row.region_kind == BOX and not wraps and clauses[at + 1] == 0 and n_words <= N_STEERING:
                tags |= PLAIN
            if row.expires != FOREVER:
                tags |= MORTAL
            if asks or (row.condition != NO_CONDITION and n_words > N_STEERING):
                tags |= ASKS
                if row.condition <= LARGEST_SHORT:
                    tags |= row.condition << CONDITION_BITS
            entry.tags = tags
            at = next_clause(clauses, at)
            n += 1
        if n - first > 1:
            for j in range(first, n):
                out[j].tags |= MANY
    return n
