"""Decides exactly whether a message matches a subscription, or how it scores: one check for each query kind.

`dense` holds the words of the message (see `columns.scores`); `space` is a `SpaceInput`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Floats, Ints
from nearcast.columns.scores import dot_row, shared_row, similar_score, topk_score
from nearcast.columns.subscription_tables import PointLayout, WithinLayout, clauses_hold, in_region
from nearcast.jit import kernel
from nearcast.model.kinds import Kind
from nearcast.space.distance import distance, ssim
from nearcast.text.similarity import tsim

NO_MATCH = float("-inf")  # the rank of a message that does not qualify for a subscription
FARTHEST = 1.7976931348623157e308  # distances that no float is large enough for count as this one, which is a match
ALL_WORDS, ANY_WORD = range(2)  # modes of Nearest
TOPK, NEAREST = int(Kind.TOPK), int(Kind.NEAREST)  # kinds whose results are kept, as kernels know them


@kernel
def within_matches(subscriptions: WithinLayout, slot: int, message: Any, space: Any, dense: Floats) -> bool:
    """Does the message lie in the region, and do its words satisfy the expression?"""
    return in_region(subscriptions, slot, space.metric, message.x, message.y) and clauses_hold(
        subscriptions, slot, dense
    )


@kernel
def similarity(subscriptions: PointLayout, slot: int, message: Any, space: Any, idf: Floats, dense: Floats) -> float:
    """Score of `Similar`, whether or not it reaches tau."""
    row, scale = subscriptions.rows[slot], subscriptions.scales[slot]
    return similarity_of(row, scale, subscriptions.terms, message, space, idf, dense)


@kernel
def similarity_of(row: Any, scale: Any, terms: Ints, message: Any, space: Any, idf: Floats, dense: Floats) -> float:
    """`similarity`, for loops in which handing over a layout would cost more than the score."""
    weight, n_shared = shared_row(terms, row.term_start, row.n_terms, idf, dense)
    text = tsim(np.int32(row.mode), weight, n_shared, scale.weight, message.weight, row.n_terms, message.n_terms)
    place = ssim(distance(space.metric, row.x, row.y, message.x, message.y), space.max_distance)
    return similar_score(scale.delta, text, place)


@kernel
def negative_distance(terms: Ints, row: Any, message: Any, metric: int, idf: Floats, dense: Floats) -> float:
    """Minus the distance of `Nearest`, or NO_MATCH; takes no layout, for loops in which handing one over would cost."""
    n_shared = shared_row(terms, row.term_start, row.n_terms, idf, dense)[1]
    if n_shared == 0 or (row.mode == ALL_WORDS and n_shared < row.n_terms):
        return NO_MATCH
    return -min(distance(metric, row.x, row.y, message.x, message.y), FARTHEST)


@kernel
def topk_rank(row: Any, scale: Any, product: float, message: Any, space: Any) -> float:
    """The score of `TopK`, if `product` is what `dot_row` says, and not 0."""
    place = ssim(distance(space.metric, row.x, row.y, message.x, message.y), space.max_distance)
    return topk_score(scale.alpha, place, product, scale.norm, message.norm)


@kernel
def rank(
    kind: int, subscriptions: PointLayout, slot: int, message: Any, space: Any, idf: Floats, dense: Floats
) -> float:
    """What results are ordered by: the score of `TopK`, minus the distance of `Nearest`, or NO_MATCH."""
    row = subscriptions.rows[slot]
    if kind == TOPK:
        product = dot_row(subscriptions.terms, subscriptions.counts, row.term_start, row.n_terms, idf, dense)
        return topk_rank(row, subscriptions.scales[slot], product, message, space) if product != 0.0 else NO_MATCH
    return negative_distance(subscriptions.terms, row, message, space.metric, idf, dense)
