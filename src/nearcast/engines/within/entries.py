"""Makes the entries of subscriptions: one for each clause, with a box rounded outward and its rarest words: kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs
from nearcast.columns.fields.conditions import BY_KEYS, BY_RANGE, NO_CONDITION
from nearcast.columns.regions import BOX
from nearcast.columns.subscription_tables import WithinLayout
from nearcast.columns.times import FOREVER
from nearcast.engines.within.layout import (
    ASKS,
    IN_RANGE,
    MANY,
    MORTAL,
    N_STEERING,
    N_WORDS,
    NO_WORD,
    PLAIN,
    UNRANKED,
    WORD_BITS,
)
from nearcast.jit import kernel
from nearcast.space.rounding import above, above_any, below, below_any


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
def count_clauses(rows: Array, slots: Ints, clauses: Ints, counts: Longs) -> None:
    """Write how many clauses each of these subscriptions is filed by."""
    for i in range(slots.size):
        at = rows[slots[i]].filed_start
        end = at + rows[slots[i]].filed_size
        while at < end:
            at = next_clause(clauses, at)
            counts[i] += 1


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
def outward_box(row: Any) -> Any:
    """The box of a subscription, rounded outward; all longitudes if it crosses the date line."""
    if row.x0 > row.x1:
        return np.float32(-np.inf), below(row.y0), np.float32(np.inf), above(row.y1)
    return below(row.x0), below(row.y0), above(row.x1), above(row.y1)


@kernel
def write_entry(row: Any, slot: int, clause: int, at: int, subscriptions: WithinLayout, ranks: Ints, out: Any) -> None:
    """Write the entry of a clause, which begins at `at`, of a subscription whose row is, or was, this one."""
    clauses = subscriptions.clauses
    out.x0, out.y0, out.x1, out.y1 = outward_box(row)
    out.slot = slot
    n_words = clauses[at]
    put_words(out, clauses, at + 2, n_words, ranks)
    tags = clause | min(n_words, N_STEERING) << N_WORDS
    if row.region_kind == BOX and not row.x0 > row.x1 and clauses[at + 1] == 0 and n_words <= N_STEERING:
        tags |= PLAIN
    if row.expires != FOREVER:
        tags |= MORTAL
    out.field, out.low, out.high = NO_WORD, np.float32(-np.inf), np.float32(np.inf)
    if row.condition != NO_CONDITION:
        condition = subscriptions.conditions.rows[row.condition]
        keyed = row.filed_start != row.clause_start
        if not (keyed and condition.decided == BY_KEYS) or n_words > N_STEERING:
            tags |= ASKS
        if condition.ranged != NO_WORD:
            out.field, out.low, out.high = condition.ranged, below_any(condition.low), above_any(condition.high)
        if condition.decided == BY_RANGE:
            tags |= IN_RANGE
    if next_clause(clauses, row.filed_start) < row.filed_start + row.filed_size:
        tags |= MANY
    out.tags = tags


@kernel
def make_entries(rows: Array, slots: Ints, subscriptions: WithinLayout, ranks: Ints, out: Array) -> int:
    """Write the entries of subscriptions; `rows[i]` is the row of slots[i], as it is or was."""
    clauses = subscriptions.clauses
    n = 0
    for i in range(rows.size):
        row = rows[i]
        at, first = row.filed_start, n
        end = at + row.filed_size
        while at < end:
            write_entry(row, slots[i], n - first, at, subscriptions, ranks, out[n])
            at = next_clause(clauses, at)
            n += 1
    return n


@kernel
def find_entry(subscriptions: WithinLayout, slot: int, clause: int, ranks: Ints, out: Any) -> None:
    """Write the entry of a subscription's clause of this number."""
    row = subscriptions.rows[slot]
    at = row.filed_start
    for _ in range(clause):
        at = next_clause(subscriptions.clauses, at)
    write_entry(row, slot, clause, at, subscriptions, ranks, out)


@kernel
def write_pairs(entries: Array, pairs: Ints) -> None:
    """Write the words of those subscriptions that one or two words decide about where their box holds the place.

    `pairs` are two terms for each slot, equal if there is one word, or NO_WORD where more must be asked.
    """
    for i in range(entries.size):
        entry = entries[i]
        few = (entry.tags & (PLAIN | MORTAL | MANY | ASKS) == PLAIN) & ((entry.tags >> N_WORDS & WORD_BITS) <= 2)
        word = entry.word0 if few else NO_WORD
        pairs[2 * entry.slot] = word
        pairs[2 * entry.slot + 1] = entry.word1 if few and entry.word1 != NO_WORD else word
