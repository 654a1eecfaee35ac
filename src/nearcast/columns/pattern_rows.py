"""Gives rows of messages the phrases and prefixes that they hold, as further words: kernels.

Only `Within` asks for patterns, and only rows made here have them: what is stored, weighed and scored are words alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints
from nearcast.jit import NEED_ROOM, kernel
from nearcast.text.patterns import PatternsLayout, find_patterns


class OrderLayout(NamedTuple):
    """The words of stored texts in their order."""

    rows: Array  # ORDER[n_slots]
    terms: Ints  # int32[]: words of slot s from its start on, repeats included
    surfaces: Ints  # int32[]: what these were before they were stemmed


class PatternInput(NamedTuple):
    """What it takes to find the patterns of stored messages."""

    patterns: PatternsLayout
    order: OrderLayout
    found: Ints  # int32[n_patterns]: scratch


@kernel
def patterns_of(given: PatternInput, messages: Any, slot: int, dense: Floats) -> Any:
    """Write the patterns of a stored message to given.found and set them in `dense`; returns how many."""
    own = given.order.rows[slot]
    words, start, n = given.order.terms, own.start, np.int64(own.n)
    surfaces = given.order.surfaces
    if n == 0:
        row = messages.rows[slot]
        words = surfaces = messages.terms
        start, n = row.term_start, -np.int64(row.n_terms)
    return find_patterns(given.patterns, words, surfaces, start, n, dense, given.found)


@kernel
def expand_rows(given: PatternInput, messages: Any, slots: Ints, dense: Floats, out: Any) -> int:
    """Write the rows of messages with their patterns behind their words; NEED_ROOM if `out` has too little, else 0."""
    at = 0
    for i in range(slots.size):
        if slots[i] < 0:
            continue
        out.rows[i] = messages.rows[slots[i]]
        row = out.rows[i]
        start, n_terms = row.term_start, row.n_terms
        n_found = patterns_of(given, messages, slots[i], dense)
        for j in range(n_found):
            dense[given.found[j]] = 0.0
        if at + n_terms + n_found > out.terms.size:
            return NEED_ROOM
        for j in range(n_terms):
            out.terms[at + j] = messages.terms[start + j]
            out.counts[at + j] = messages.counts[start + j]
        for j in range(n_found):
            out.terms[at + n_terms + j] = given.found[j]
            out.counts[at + n_terms + j] = 1
        row.term_start, row.n_terms = at, n_terms + n_found
        at += n_terms + n_found
    return 0
