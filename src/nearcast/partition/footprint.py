"""Finds the footprint of each subscription: the box and the words by which messages touch it.

A message touches a subscription when an index that knows places and words cannot rule it out. Whatever the kind, that
takes a place in the subscription's **box** and one of its **words**, or, for some `Similar`, a place near enough alone.

| kind | box | words |
| --- | --- | --- |
| `Within` | around its region | of each clause the rarest that must be there |
| `Similar` | around the places where all its words would do | its prefix: without one of them no text is near enough |
| `TopK` | around the places where any text can reach the k-th score in the sample | all |
| `Nearest` of all words | around the k nearest in the sample | the rarest |
| `Nearest` of any word | around the k nearest in the sample | all |

Where the sample holds fewer than k, the box is everything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from nearcast.columns.arena import Array, Floats, Ints, Longs, owned
from nearcast.columns.decode_subscriptions import Part, Rules, decode_subscriptions
from nearcast.columns.subscription_tables import PointRows, WithinRows
from nearcast.jit import kernel
from nearcast.model.kinds import Kind
from nearcast.model.query import MATCHES
from nearcast.partition.radii import Points, nearest_many, scratch_for, topk_many
from nearcast.partition.sample import Rectangle, Sample, count_box
from nearcast.space.regions import circle_box
from nearcast.text.similarity import COSINE, DICE, OVERLAP
from nearcast.text.words import as_given

# In the columnar form, or each in the JSON form.
Subscriptions: TypeAlias = pa.Table | list[dict[str, Any]]

COST_KINDS = ("within", "similar", "topk", "nearest_all", "nearest_any")
DEEPEST = 14  # level of the smallest boxes; smaller ones count as these

_CHUNK = 500_000  # subscriptions that are decoded at a time
_ALL = MATCHES.index("all")
_LOOSE = 1e-12


class Footprints(NamedTuple):
    """By what messages touch subscriptions, one row each."""

    rows: Longs  # int64[n]: row numbers in the caller's table
    kinds: Ints  # int32[n]: position in COST_KINDS
    boxes: Floats  # float64[n, 4]: x0, y0, x1, y1; longitudes wrapped under haversine
    levels: Ints  # int32[n]: the deepest level of a quadtree over the bounds whose cells are as large as the box
    alone: Floats  # float64[n]: share of messages that touch by their place alone
    word_start: Longs  # int64[n + 1]: subscription i is touched by words[word_start[i]:word_start[i + 1]]
    words: Ints  # terms; any that the sample does not have is the one after its last


@kernel
def rarest_of_clauses(terms: Any, part_start: Any, n_clauses: Any, holding: Any, words: Any, word_start: Any) -> Any:
    """Write the rarest positive word of each clause, each word once; returns how many."""
    n = part = 0
    for i in range(n_clauses.size):
        word_start[i] = n
        for _ in range(n_clauses[i]):
            rarest = terms[part_start[part]]
            for j in range(part_start[part], part_start[part + 1]):
                if holding[min(terms[j], holding.size - 1)] < holding[min(rarest, holding.size - 1)]:
                    rarest = terms[j]
            known = False
            for j in range(word_start[i], n):
                known = known or words[j] == rarest
            if not known:
                words[n] = rarest
                n += 1
            part += 2
    word_start[n_clauses.size] = n
    return n


@kernel
def shared_at_most(measure: Any, weight: Any, n_words: Any, n_all: Any) -> Any:
    """The largest text similarity of a message that holds `n_words` of `n_all` words, with this share of the weight."""
    if measure == OVERLAP:
        return n_words / n_all
    if measure == DICE:
        return 2.0 * n_words / (n_all + n_words)
    if measure == COSINE:
        return math.sqrt(n_words / n_all)
    return weight


@kernel
def prefix_many(points: Any, holding: Any, words: Any, word_start: Any) -> Any:
    """Write the words of each `Similar` without one of which no text is near enough; returns how many.

    Paper: [STAMP] the prefix: as few of the rarest words as leave others that together do not suffice.
    """
    n = 0
    for i in range(points.xs.size):
        word_start[i] = n
        first, after, delta = points.term_start[i], points.term_start[i + 1], points.deltas[i]
        if delta == 0.0:
            continue
        weight = 0.0
        for j in range(first, after):
            weight += points.term_weights[j]
        needed = (points.taus[i] - (1.0 - delta)) / delta - 1e-12
        for j in range(first, after):  # rarest first; rows are short
            words[n] = j
            at = n
            held = holding[min(points.terms[j], holding.size - 1)]
            while at > word_start[i] and holding[min(points.terms[words[at - 1]], holding.size - 1)] > held:
                words[at] = words[at - 1]
                at -= 1
            words[at] = j
            n += 1
        left, n_left = 0.0, 0
        while n > word_start[i]:
            left += points.term_weights[words[n - 1]] / weight
            n_left += 1
            if shared_at_most(points.modes[i], left, n_left, after - first) >= needed:
                break
            n -= 1
        for at in range(word_start[i], n):
            words[at] = points.terms[words[at]]
    word_start[points.xs.size] = n
    return n


@kernel
def rarest_words(points: Any, holding: Any, words: Any, word_start: Any) -> Any:
    """Write the words that a `Nearest` is touched by: the rarest where all are asked for; returns how many."""
    n = 0
    for i in range(points.xs.size):
        word_start[i] = n
        for j in range(points.term_start[i], points.term_start[i + 1]):
            if points.modes[i] == _ALL and n > word_start[i]:
                held = holding[min(points.terms[j], holding.size - 1)]
                if held < holding[min(words[n - 1], holding.size - 1)]:
                    words[n - 1] = points.terms[j]
            else:
                words[n] = points.terms[j]
                n += 1
    word_start[points.xs.size] = n
    return n


@kernel
def balls_to_boxes(metric: Any, xs: Any, ys: Any, radii: Any, boxes: Any) -> None:
    """A box around each ball."""
    for i in range(xs.size):
        if math.isinf(radii[i]):
            boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3] = -math.inf, -math.inf, math.inf, math.inf
        else:
            boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3] = circle_box(metric, xs[i], ys[i], radii[i])


@kernel
def shares_of(sample: Any, boxes: Any, which: Any, shares: Any) -> None:
    """Share of messages that lie in each of some boxes.

    Paper: [DKMSKS] section 3.2, equation 2.
    Departs: as if one more message had come that lies everywhere and holds every word, so that what the sample lacks is
    rare and not impossible, and an empty sample makes all alike. The same goes for words.
    """
    n = sample.ys.size
    for i in which:
        box = Rectangle(boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3])
        shares[i] = (1 + count_box(sample, box)) / (1 + n)


def find_footprints(subscriptions: Subscriptions, sample: Sample) -> Footprints:
    """The footprints of these subscriptions; rows that are malformed are left out."""
    ints = np.zeros(0, np.int32)
    none = Footprints(np.zeros(0, np.int64), ints, np.zeros((0, 4)), ints, np.zeros(0), np.zeros(1, np.int64), ints)
    found = [none, *_pieces(subscriptions, sample)]
    joined = [np.concatenate(columns) for columns in zip(*found, strict=True)]
    sizes = np.concatenate([np.diff(piece.word_start) for piece in found])
    joined[5] = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    return Footprints(*joined)


def _pieces(subscriptions: Subscriptions, sample: Sample) -> Iterator[Footprints]:
    rules = Rules(sample.space, True, None, sample.vocabulary.analysis.analyzer)
    for first in range(0, len(subscriptions), _CHUNK):
        # A table cut like a list gives a table.
        for part in decode_subscriptions(subscriptions[first : first + _CHUNK], rules).parts:
            piece = _piece(part, sample)
            yield piece._replace(rows=piece.rows + first)


def _piece(part: Part, sample: Sample) -> Footprints:
    """The footprints of one kind's subscriptions; words that only they have are freed again."""
    vocabulary, n_terms = sample.vocabulary, sample.n_terms
    terms = vocabulary.encode(as_given(part.words))
    holding = np.append(sample.holding, 0)
    words = np.empty(terms.terms.size, np.int32)
    given, n = part.given, len(part.ids)
    word_start = np.zeros(n + 1, np.int64)
    kinds, alone = (
        np.full(n, COST_KINDS.index(part.kind.label) if part.kind.label in COST_KINDS else 0, np.int32),
        np.zeros(n),
    )
    if isinstance(given, WithinRows):
        n_words = rarest_of_clauses(terms.terms, terms.row_start, part.n_clauses, holding, words, word_start)
        boxes = given.regions.boxes.copy()
        across = boxes[:, 0] > boxes[:, 2]
        boxes[across, 0], boxes[across, 2] = -np.inf, np.inf
    else:
        points = _points(part, given, terms.row_start, terms.terms, terms.counts, vocabulary.idf[terms.terms])
        points = points._replace(ks=_scaled(points.ks, sample.per_live))
        boxes = np.empty((n, 4))
        if part.kind == Kind.TOPK:
            words[:], word_start[:], n_words = terms.terms, terms.row_start, terms.terms.size
        elif part.kind == Kind.SIMILAR:
            n_words = prefix_many(points, holding, words, word_start)
            alone = _alone(sample, points)
        else:
            n_words = rarest_words(points, holding, words, word_start)
            kinds[:] = np.where(given.mode == _ALL, COST_KINDS.index("nearest_all"), COST_KINDS.index("nearest_any"))
        radii = _radii(part.kind, sample, points, vocabulary.capacity)
        balls_to_boxes(sample.space.metric_code, points.xs, points.ys, radii, boxes)
    words = np.minimum(words[:n_words], n_terms).astype(np.int32)
    numbers = vocabulary.keys.numbers()
    vocabulary.free(numbers[numbers >= n_terms])
    return Footprints(given.rows, kinds, boxes, _levels(boxes, sample), alone, word_start, words)


def _points(part: Part, given: PointRows, row_start: Longs, terms: Ints, counts: Ints, idf: Floats) -> Points:
    term_weights = idf
    if part.kind == Kind.TOPK:
        owner = np.repeat(np.arange(len(part.ids)), np.diff(row_start))
        term_weights = counts * idf
        term_weights = term_weights / np.sqrt(np.bincount(owner, term_weights * term_weights, len(part.ids)))[owner]
    columns = (given.x, given.y, given.delta, given.tau, given.alpha, given.k, given.mode)
    return Points(*(owned(column) for column in (*columns, row_start, terms, term_weights)))


def _scaled(ks: Ints, by: float) -> Ints:
    """How many of the sample lie where the k best of the window do."""
    return ks if by == 1.0 else np.clip(np.ceil(ks * by), 1, 2**31 - 1).astype(np.int32)


def _radii(kind: Kind, sample: Sample, points: Points, n_terms: int) -> Floats:
    """How far each subscription looks."""
    space, radii = sample.space, np.full(points.xs.size, np.inf)
    scratch = scratch_for(n_terms, int(min(points.ks.max(initial=1), sample.layout.rows.size + 1)))
    if kind == Kind.NEAREST:
        nearest_many(sample.layout, space.metric_code, points, scratch, radii)
    elif kind == Kind.TOPK:
        topk_many(sample.layout, space.metric_code, space.max_distance, points, scratch, radii)
    else:
        radii = _reach(points.taus - points.deltas, 1.0 - points.deltas, space.max_distance)
    return radii


def _reach(needed: Floats, share: Floats, max_distance: float) -> Floats:
    """Where `share` times the spatial similarity is at least `needed`: a radius, infinite for everywhere, below 0 for
    nowhere."""
    with np.errstate(divide="ignore", invalid="ignore"):
        least = needed / share
    least = np.where(needed <= 0.0, -np.inf, np.where(share <= 0.0, np.inf, least - _LOOSE))
    radii: Floats = np.where(least <= 0.0, np.inf, max_distance * (1.0 - least))
    return radii


def _alone(sample: Sample, points: Points) -> Floats:
    """Share of messages whose place alone is near enough for each `Similar`."""
    radii = _reach(points.taus, 1.0 - points.deltas, sample.space.max_distance)
    near, boxes = np.flatnonzero(radii >= 0.0), np.empty((radii.size, 4))
    balls_to_boxes(sample.space.metric_code, points.xs, points.ys, np.maximum(radii, 0.0), boxes)
    shares = np.zeros(radii.size)
    shares_of(sample.layout, boxes, near, shares)
    return shares


def _levels(boxes: Floats, sample: Sample) -> Ints:
    """How small boxes are."""
    x0, y0, x1, y1 = sample.space.bounds
    with np.errstate(divide="ignore", invalid="ignore"):
        fits = np.minimum((x1 - x0) / (boxes[:, 2] - boxes[:, 0]), (y1 - y0) / (boxes[:, 3] - boxes[:, 1]))
    fits = np.clip(np.nan_to_num(fits, nan=1.0), 1.0, 2.0**DEEPEST)
    levels: Array = np.frexp(fits)[1] - 1
    return levels.astype(np.int32)
