"""Finds the live messages that a `Within` or `Similar` subscription matches: for backfills, moves and results.

The message index gives candidates by word and box, which are then checked exactly like arrivals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, with_room
from nearcast.columns.clauses import split_clauses
from nearcast.columns.fields.conditions import NO_CONDITION, satisfies
from nearcast.columns.regions import CIRCLE
from nearcast.columns.scores import gather, scatter
from nearcast.columns.subscription_tables import PointLayout, WithinLayout
from nearcast.engines.contract import NO_CHANGES, Changes, EngineContext, difference, entering
from nearcast.engines.exact import ALL_WORDS, NEAREST, NO_MATCH, rank, similarity, within_matches
from nearcast.jit import allocating
from nearcast.space.regions import circle_box
from nearcast.text.patterns import Patterns
from nearcast.text.vocabulary import Vocabulary
from nearcast.window.index.candidates import EVERY
from nearcast.window.index.query import Moment

_LOOSE = 1e-12  # how much a rearranged inequality is loosened before it filters
MOST_WORDS = 64  # that a prefix may stand for; with more, asking for all messages takes less
_EVERYWHERE = (-math.inf, -math.inf, math.inf, math.inf)

Area = tuple[float, float, float, float]


def matching_within(layout: WithinLayout, slot: int, context: EngineContext, dense: Floats) -> tuple[Ints, Floats]:
    """Live messages that a Within subscription matches, newest first; their scores are NaN."""
    row = layout.rows[slot]
    area = (float(row["x0"]), float(row["y0"]), float(row["x1"]), float(row["y1"]))
    if (
        context.space.metric == "haversine"
        and row["region_kind"] != CIRCLE
        and not -180.0 <= area[0] <= area[2] < 180.0
    ):
        area = (-math.inf, area[1], math.inf, area[3])  # the index wraps longitudes, boxes and polygons do not
    idf = context.vocabulary.idf
    packed = layout.clauses[row["clause_start"] : row["clause_start"] + row["clause_size"]]
    terms = {term for positive, _ in split_clauses(packed) for term in _rarest(positive, context.vocabulary)}
    found = _candidates([EVERY] if EVERY in terms else sorted(terms), area, int(row["since"]), context)
    space = context.space.kernel_input
    kept = found[check_within(layout, slot, *context.live.table.with_patterns(found), space, idf, dense)]
    newest = np.argsort(-context.live.table.layout.rows["sequence"][kept], kind="stable")
    return kept[newest], np.full(kept.size, np.nan)


def _rarest(positive: Ints, vocabulary: Vocabulary) -> list[int]:
    """Words of which every message that a clause holds for has one: one word, unless the clause has prefixes only."""
    patterns, idf = vocabulary.patterns, vocabulary.idf
    if not len(patterns):
        return [int(positive[np.argmax(idf[positive])])]
    prefixes = [term for term in positive.tolist() if patterns.is_prefix(term)]
    words = [word for term in positive.tolist() if term not in prefixes for word in _words_of(patterns, term)]
    if words:
        return [words[np.argmax(idf[words])]]
    if vocabulary.analysis.analyzer.stemmer is not None:  # messages are found by stems
        return [EVERY]
    fewest = min((patterns.words_with(prefix) for prefix in prefixes), key=len)
    return fewest.tolist() if fewest.size <= MOST_WORDS else [EVERY]


def _words_of(patterns: Patterns, term: int) -> list[int]:
    """The words of a phrase, or the word itself."""
    return patterns.words_of(term).tolist() or [term]


def matching_similar(layout: PointLayout, slot: int, context: EngineContext, dense: Floats) -> tuple[Ints, Floats]:
    """Live messages that a Similar subscription matches, best first, and their scores."""
    row, scale = layout.rows[slot], layout.scales[slot]
    delta, tau = float(scale["delta"]), float(scale["tau"])
    terms = layout.terms[row["term_start"] : row["term_start"] + row["n_terms"]].tolist()
    if tau <= 1.0 - delta + _LOOSE:  # the place alone may suffice
        terms = [EVERY]
    area = _EVERYWHERE
    if tau - delta > _LOOSE and delta < 1.0:  # even a perfect text needs a place this near
        farthest = (1.0 - (tau - delta) / (1.0 - delta) + _LOOSE) * context.space.max_distance
        area = circle_box(
            context.space.metric_code, float(row["x"]), float(row["y"]), max(0.0, farthest) * (1.0 + _LOOSE)
        )
    found = _candidates(terms, area, int(row["since"]), context)
    space = context.space.kernel_input
    scores = score_similar(layout, slot, context.live.table.layout, found, space, context.vocabulary.idf, dense)
    found, scores = found[scores >= tau], scores[scores >= tau]
    best = np.lexsort((-context.live.table.layout.rows["sequence"][found], -scores))
    return found[best], scores[best]


def qualifying(kind: int, layout: PointLayout, slot: int, context: EngineContext, dense: Floats) -> Ints:
    """Live messages that a TopK or Nearest subscription may hold, whatever its k, in any order."""
    row, idf = layout.rows[slot], context.vocabulary.idf
    terms = layout.terms[row["term_start"] : row["term_start"] + row["n_terms"]]
    if kind == NEAREST and row["mode"] == ALL_WORDS:
        terms = terms[[np.argmax(idf[terms])]]
    found = _candidates(terms.tolist(), _EVERYWHERE, int(row["since"]), context)
    ranks = rank_many(kind, layout, slot, context.live.table.layout, found, context.space.kernel_input, idf, dense)
    return found[ranks > NO_MATCH]


class LiveSearch:
    """What a notifier's subscriptions match among the live messages, found one by one through the message index.

    `matching` is `matching_within` or `matching_similar`. Without a window no message is live.
    """

    def __init__(self, matching: Callable[..., tuple[Ints, Floats]], context: EngineContext) -> None:
        self._matching = matching
        self._context = context
        self._dense = np.zeros(0)

    def find(self, layout: WithinLayout | PointLayout, row: int) -> tuple[Ints, Floats]:
        """Messages that the subscription in this row matches, in the order of its result, and their scores."""
        if self._context.live.window is None:
            return np.zeros(0, np.int32), np.zeros(0)
        return self._matching(layout, row, self._context, self.dense())

    def dense(self) -> Floats:
        """Scratch for the words of a message: zeros, one for every term, to be left as they were."""
        self._dense = with_room(self._dense, self._context.vocabulary.idf.size)
        return self._dense

    def fill(self, layout: WithinLayout | PointLayout, slots: Ints) -> Changes:
        """All that these subscriptions match, as entering."""
        return self._entering(layout, slots, slots)

    def moved(self, layout: WithinLayout | PointLayout, slots: Ints, before: Array) -> Changes:
        """How the results of subscriptions changed whose rows were `before`."""
        past = layout._replace(rows=before)
        if isinstance(past, PointLayout):
            past = past._replace(scales=past.scales[slots])
        old = self._entering(past, np.arange(slots.size, dtype=np.int32), slots)
        return difference(old, self.fill(layout, slots))

    def _entering(self, layout: WithinLayout | PointLayout, rows: Ints, slots: Ints) -> Changes:
        """What the subscriptions in these rows of the layout match, as changes of these slots."""
        if not slots.size:
            return NO_CHANGES
        found = [self.find(layout, row) for row in rows.tolist()]
        messages, scores = (np.concatenate(column) for column in zip(*found, strict=True))
        return entering(np.repeat(slots, [part.size for part, _ in found]), messages, scores)

    @property
    def nbytes(self) -> int:
        return self._dense.nbytes

    def check(self) -> None:
        assert not self._dense.any(), "scratch must be clean between calls"


def _candidates(terms: list[int], area: Area, since: int, context: EngineContext) -> Ints:
    """Live messages inside the area that hold one of the terms, each once."""
    live = context.live
    moment = Moment(live.last, live.clock, live.limits.newest, since)
    found = [live.index.candidates(live.table.layout, term, area, moment) for term in terms]
    slots = found[0] if len(found) == 1 else np.concatenate([np.zeros(0, np.int32), *found])
    slots.sort()
    if len(found) > 1 and slots.size:
        slots = slots[np.append(True, slots[1:] != slots[:-1])]  # np.unique hashes first, which takes longer
    return slots


@allocating
def check_within(
    subscriptions: WithinLayout, slot: int, messages: Any, found: Ints, space: Any, idf: Floats, dense: Floats
) -> Array:
    """Which of the messages match a Within subscription."""
    matches = np.zeros(found.size, dtype=np.bool_)
    condition = subscriptions.rows[slot].condition
    for i in range(found.size):
        if condition != NO_CONDITION and not satisfies(subscriptions.conditions, condition, messages.fields, found[i]):
            continue
        message = messages.rows[found[i]]
        scatter(messages.terms, messages.counts, message.term_start, message.n_terms, idf, dense)
        matches[i] = within_matches(subscriptions, slot, message, space, dense)
        gather(messages.terms, message.term_start, message.n_terms, dense)
    return matches


@allocating
def score_similar(
    subscriptions: PointLayout, slot: int, messages: Any, found: Ints, space: Any, idf: Floats, dense: Floats
) -> Floats:
    """Scores of the messages for a Similar subscription; NO_MATCH where its condition is not satisfied."""
    scores = np.full(found.size, NO_MATCH)
    condition = subscriptions.rows[slot].condition
    for i in range(found.size):
        if condition != NO_CONDITION and not satisfies(subscriptions.conditions, condition, messages.fields, found[i]):
            continue
        message = messages.rows[found[i]]
        scatter(messages.terms, messages.counts, message.term_start, message.n_terms, idf, dense)
        scores[i] = similarity(subscriptions, slot, message, space, idf, dense)
        gather(messages.terms, message.term_start, message.n_terms, dense)
    return scores


@allocating
def rank_many(
    kind: int, subscriptions: PointLayout, slot: int, messages: Any, found: Ints, space: Any, idf: Floats, dense: Floats
) -> Floats:
    """How the messages rank for a TopK or Nearest subscription; NO_MATCH where its condition is not satisfied."""
    ranks = np.full(found.size, NO_MATCH)
    condition = subscriptions.rows[slot].condition
    for i in range(found.size):
        if condition != NO_CONDITION and not satisfies(subscriptions.conditions, condition, messages.fields, found[i]):
            continue
        message = messages.rows[found[i]]
        scatter(messages.terms, messages.counts, message.term_start, message.n_terms, idf, dense)
        ranks[i] = rank(kind, subscriptions, slot, message, space, idf, dense)
        gather(messages.terms, message.term_start, message.n_terms, dense)
    return ranks
