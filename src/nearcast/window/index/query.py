"""Says what is asked of the message index, as of when, and computes the bounds and keys that answers are compared by.

The **key** of a message is its distance, or minus its score: the smaller the better. A score that fades is bounded as
it is told at the moment of the search; messages are compared by their keys without a clock (`window/recency.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs
from nearcast.columns.fields.conditions import NO_CONDITION, ConditionLayout, satisfies
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.scores import topk_score
from nearcast.jit import inlined, kernel
from nearcast.space.distance import distance, ssim
from nearcast.space.hilbert import at_least, at_most, squared_limit
from nearcast.window.index.segments import IndexLayout, bit_of
from nearcast.window.recency import faded, recency_key, score_of_key
from nearcast.window.window import is_live

BY_SCORE, ALL, ANY = range(3)

SEARCHES, NODES, LEAVES, POSTINGS, VERIFIED = range(5)  # positions of the work counters
N_COUNTERS = 5

LOOSE = 1e-12  # a bound by place and words is lowered by this much before it filters
BLUR = 4e-7  # a float32 unit weight is rounded up by less than this share of it
_BLURRED = 1e-11  # and by less than this, where it is tiny
_FADE_BLUR = 1e-9  # a faded score is off by less than this share of it


class Question(NamedTuple):
    """What is asked. `mode` is BY_SCORE, ALL or ANY; only BY_SCORE needs `alpha` and `norm`, of the tf-idf vector."""

    mode: int
    x: float
    y: float
    k: int
    alpha: float
    norm: float
    condition: int  # or NO_CONDITION
    conditions: ConditionLayout
    half_life: int  # of scores, in milliseconds; 0: they do not fade


class Moment(NamedTuple):
    """As of when, and only messages newer than `since`."""

    last: int
    clock: int
    newest: int  # how many of the newest messages live
    since: int


class Area(NamedTuple):
    """A closed box. Under haversine longitudes are wrapped, and x0 > x1 means across the date line."""

    x0: float
    y0: float
    x1: float
    y1: float


class Aim(NamedTuple):
    """A question and the space, prepared for bounds."""

    mode: int
    need: int  # words that a message must hold
    k: int
    alpha: float
    metric: int
    max_distance: float
    x: float
    y: float
    z: float
    bits: int  # `bit_of` its words
    half_life: int
    clock: int


class Tallies(NamedTuple):
    """What the words add up to, each in an array of its own so that many are compared at once; zeros between uses."""

    texts: Floats  # float64[LEAF]: sum of weight times unit weight over the words
    caps: Floats  # float64[FAN]: squared length of the question's words that occur
    hits: Longs  # int64[LEAF]: number of words that occur


class SearchScratch(NamedTuple):
    """Room for one search at a time, and where its answer is."""

    best: Array  # BEST[>= k]: the answer
    sure: Array  # BEST[>= k]: the best keys that are sure to be reached, see nodes.py
    deferred: Array  # DEFERRED[]: messages to verify at the end
    queue: Array  # QUEUED[]: a heap of nodes, the best bound first
    term_states: Array  # TERM_STATE[]: by segment and word
    spans: Array  # SPAN[]: by word and leaf of the node at hand
    leaves: Array  # QUEUED[FAN]: a heap of the leaves of the node at hand, the best bound first
    tallies: Tallies  # for each child of a node or message of a leaf
    touched: Ints  # int32[LEAF]: messages of a leaf
    kept: Array  # KEPT[LEAF]: those of them that can still win
    work: Longs  # int64[N_COUNTERS]: work counters


class SearchTask(NamedTuple):
    """Everything that one search reads and writes."""

    layout: IndexLayout
    messages: MessageLayout
    idf: Floats
    question: Question
    terms: Ints  # int32[]: its distinct words
    dense: Floats  # float64[n_terms]: their weights, negative once their messages have been tried; else 0
    moment: Moment
    scratch: SearchScratch
    aim: Aim


@kernel
def is_alive(row: Any, sequence: int, moment: Moment) -> bool:
    """Does the row still hold the message of that sequence, and does the message count as of that moment?"""
    return (
        row.sequence == sequence and sequence > moment.since and is_live(row, moment.last, moment.clock, moment.newest)
    )


@inlined
def is_wanted(question: Any, messages: Any, slot: Any) -> Any:
    """Do the fields of a message satisfy the condition of the question, if it has one?"""
    return question.condition == NO_CONDITION or satisfies(
        question.conditions, question.condition, messages.fields, slot
    )


@kernel
def n_held(messages: MessageLayout, row: Any, dense: Floats) -> int:
    """How many of the question's words the message of this row holds."""
    n = 0
    for i in range(row.term_start, row.term_start + row.n_terms):
        if dense[messages.terms[i]] != 0.0:
            n += 1
    return n


@inlined
def bound_of(aim: Any, squared: Any, text: Any) -> Any:
    """The key that no message beats whose point lies that far away, squared, and whose cosine is at most `text`."""
    if aim.mode != BY_SCORE:
        return squared
    near = max(0.0, 1.0 - at_least(aim.metric, squared) / aim.max_distance)
    return -(aim.alpha * near + (1.0 - aim.alpha) * text) - LOOSE


@inlined
def sure_of(aim: Any, squared: Any, text: Any) -> Any:
    """The key that a live message surely reaches in a TopK search, by the same; not far above its bound."""
    near = max(0.0, 1.0 - at_most(aim.metric, squared) / aim.max_distance)
    return -(aim.alpha * near + (1.0 - aim.alpha) * text * (1.0 - BLUR)) + _BLURRED


@inlined
def fade_bound(aim: Any, bound: Any, ts: Any) -> Any:
    """A bound for messages that are not newer than `ts`: it fades if scores do."""
    if aim.half_life == 0 or ts >= aim.clock:
        return bound
    return faded(bound, ts, aim.clock, aim.half_life) * (1.0 + _FADE_BLUR)


@inlined
def order_of(aim: Any, key: Any, ts: Any) -> Any:
    """Magnitude and key by which a message is compared with others."""
    if aim.half_life == 0:
        return np.int64(0), key
    exponent, mantissa = recency_key(-key, ts, aim.half_life)
    return -exponent, -mantissa


@inlined
def limit_of(aim: Any, best: Array, n: int) -> Any:
    """The bound beyond which nothing enters the answer any more."""
    if n < aim.k:
        return np.inf
    if aim.half_life != 0:
        return -score_of_key(-best[0].magnitude, -best[0].key, aim.clock, aim.half_life) * (1.0 - _FADE_BLUR)
    return best[0].key if aim.mode == BY_SCORE else squared_limit(aim.metric, best[0].key)


@inlined
def untried_dot(words: Any, counts: Any, row: Any, idf: Floats, dense: Floats, bits: Any) -> Any:
    """`dot_row` of a message, or -1 if it holds a word that was tried already: its weight in `dense` is negative.

    Most words fail by `bits`, those of the question's words: weights are far apart in memory, and slow to look at.
    """
    total = 0.0
    for i in range(row.term_start, row.term_start + row.n_terms):
        if bits & bit_of(words[i]) == 0:
            continue
        other = dense[words[i]]
        if other < 0.0:
            return -1.0
        if other > 0.0:
            total += (counts[i] * idf[words[i]]) * other
    return total


@inlined
def key_of(row: Any, words: Any, counts: Any, idf: Floats, dense: Floats, question: Question, aim: Any) -> Any:
    """The exact distance of a message, or minus its exact score; NaN if it was tried already."""
    total = 0.0
    if question.mode == BY_SCORE:
        total = untried_dot(words, counts, row, idf, dense, aim.bits)
        if total < 0.0:
            return np.nan
    key = distance(aim.metric, question.x, question.y, row.x, row.y)
    if question.mode != BY_SCORE:
        return key
    return -topk_score(question.alpha, ssim(key, aim.max_distance), total, question.norm, row.norm)
