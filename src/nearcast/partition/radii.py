"""Finds how far a subscription would look among a sample of messages: kernels.

The balls B(s) of DkM-SKS section 3.2.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Floats, Ints, Longs
from nearcast.jit import kernel
from nearcast.model.query import MATCHES
from nearcast.partition.sample import length_of, spot_of
from nearcast.space.distance import EUCLIDEAN, ssim, wrap

_ALL = MATCHES.index("all")
_LOOKED_AT = 256  # messages whose score is computed for one TopK subscription


class Points(NamedTuple):
    """Subscriptions of one kind that have a place."""

    xs: Floats
    ys: Floats
    deltas: Floats  # float64[n]: of Similar, as taus; else zeros
    taus: Floats
    alphas: Floats  # float64[n]: of TopK, else zeros
    ks: Ints
    modes: Ints  # int32[n]: measure of Similar, match of Nearest
    term_start: Longs  # int64[n + 1]: subscription i asks for terms[term_start[i]:term_start[i + 1]]
    terms: Ints  # distinct
    term_weights: Floats  # float64[]: idf of each; of TopK its part of the unit tf-idf vector


class RadiiScratch(NamedTuple):
    """Room that kernels write to."""

    dense: Floats  # float64[n_terms]: a value for each word at hand, else 0
    best: Floats  # float64[largest k]: smallest values found, ascending
    who: Ints  # int32[largest k]: and the messages they belong to


class PlaceQuery(NamedTuple):
    """What is looked for in the list of a word: the k nearest to a place."""

    x: float
    y: float
    k: int
    n_words: int  # that a message must hold; 0 for any


@kernel
def keep_best(scratch: Any, n: Any, k: Any, value: Any, row: Any) -> Any:
    """Keep a value unless k smaller ones are kept, or the message is; returns how many are kept."""
    best, who = scratch.best, scratch.who
    if n == k and value >= best[k - 1]:
        return n
    for i in range(n):
        if who[i] == row:
            return n
    at = min(n, k - 1)
    while at > 0 and best[at - 1] > value:
        best[at], who[at] = best[at - 1], who[at - 1]
        at -= 1
    best[at], who[at] = value, row
    return min(n + 1, k)


@kernel
def holds_all(sample: Any, row: Any, dense: Any, n_words: Any) -> Any:
    """Does the message hold `n_words` of the words at hand?"""
    n = 0
    for j in range(sample.term_start[row], sample.term_start[row + 1]):
        n += dense[sample.terms[j]] > 0.0
    return n == n_words


@kernel
def search_list(sample: Any, metric: Any, query: Any, term: Any, n: Any, scratch: Any) -> Any:
    """Keep the messages of one list that are among the k nearest; returns how many are kept, `n` of them before.

    The list is followed north and south at once, until the next one lies farther off in latitude alone than the k-th.
    """
    x, y, k, n_words = query
    spot_x, spot_y, spot_z = spot_of(metric, x, y)
    ys, rows, spots = sample.ys, sample.rows, sample.spots
    start, end = sample.list_start[term], sample.list_start[term + 1]
    low, high = start, end
    while low < high:
        middle = (low + high) // 2
        if ys[rows[middle]] < y:
            low = middle + 1
        else:
            high = middle
    north, south = low, low - 1
    limit = math.inf
    if n == k:
        limit = gap_of(metric, scratch.best[k - 1])
    while north < end or south >= start:
        up = ys[rows[north]] - y if north < end else math.inf
        down = y - ys[rows[south]] if south >= start else math.inf
        if min(up, down) > limit:
            break
        if up <= down:
            row = rows[north]
            north += 1
        else:
            row = rows[south]
            south -= 1
        dx, dy, dz = spots[row, 0] - spot_x, spots[row, 1] - spot_y, spots[row, 2] - spot_z
        squared = dx * dx + dy * dy + dz * dz
        if n == k and squared >= scratch.best[k - 1]:
            continue
        if n_words > 0 and not holds_all(sample, row, scratch.dense, n_words):
            continue
        n = keep_best(scratch, n, k, squared, row)
        if n == k:
            limit = gap_of(metric, scratch.best[k - 1])
    return n


@kernel
def gap_of(metric: Any, squared: Any) -> Any:
    """How far apart in latitude, or along an axis, two spots of this squared distance can lie."""
    if metric == EUCLIDEAN:
        return math.sqrt(squared)
    return math.degrees(2.0 * math.asin(math.sqrt(min(1.0, squared)))) * (1.0 + 1e-12)


@kernel
def nearest_many(sample: Any, metric: Any, points: Any, scratch: Any, radii: Any) -> None:
    """Radius of each ball: the distance to the k-th nearest message in the sample, infinite if there are fewer.

    Paper: [DKMSKS] section 3.2, B(s).
    """
    n_terms = sample.list_start.size - 1
    for i in range(points.xs.size):
        first, after, k = points.term_start[i], points.term_start[i + 1], points.ks[i]
        n_words = after - first if points.modes[i] == _ALL else 0
        rarest, least, total = -1, sample.rows.size + 1, 0
        for j in range(first, after):
            term = points.terms[j]
            held = sample.list_start[term + 1] - sample.list_start[term] if term < n_terms else 0
            total += held
            if held < least:
                rarest, least = term, held
        radii[i] = math.inf
        if (least if n_words else total) < k:
            continue
        x = points.xs[i] if metric == EUCLIDEAN else wrap(points.xs[i])
        query = PlaceQuery(x, points.ys[i], k, n_words)
        n = 0
        if n_words:
            for j in range(first, after):
                scratch.dense[points.terms[j]] = 1.0
            n = search_list(sample, metric, query, rarest, n, scratch)
            for j in range(first, after):
                scratch.dense[points.terms[j]] = 0.0
        else:
            for j in range(first, after):
                if points.terms[j] < n_terms:
                    n = search_list(sample, metric, query, points.terms[j], n, scratch)
        if n == k:
            radii[i] = length_of(metric, scratch.best[k - 1])


@kernel
def topk_many(sample: Any, metric: Any, max_distance: Any, points: Any, scratch: Any, radii: Any) -> None:
    """Radius of each ball: beyond it a message does not reach the k-th score in the sample, whatever its text.

    Where a subscription's words are held by many, only some of these are scored, evenly spread, and k is smaller
    accordingly.
    """
    n_terms = sample.list_start.size - 1
    for i in range(points.xs.size):
        first, after, alpha = points.term_start[i], points.term_start[i + 1], points.alphas[i]
        total = 0
        for j in range(first, after):
            if points.terms[j] < n_terms:
                total += sample.list_start[points.terms[j] + 1] - sample.list_start[points.terms[j]]
                scratch.dense[points.terms[j]] = points.term_weights[j]
        step = 1 + total // _LOOKED_AT
        k = 1 + (points.ks[i] - 1) // step
        n = 0
        spot_x, spot_y, spot_z = spot_of(metric, points.xs[i], points.ys[i])
        for j in range(first, after):
            if points.terms[j] >= n_terms or total < points.ks[i]:
                continue
            for at in range(sample.list_start[points.terms[j]], sample.list_start[points.terms[j] + 1], step):
                row = sample.rows[at]
                text = 0.0
                for word in range(sample.term_start[row], sample.term_start[row + 1]):
                    text += scratch.dense[sample.terms[word]] * sample.parts[word]
                dx, dy = sample.spots[row, 0] - spot_x, sample.spots[row, 1] - spot_y
                dz = sample.spots[row, 2] - spot_z
                away = length_of(metric, dx * dx + dy * dy + dz * dz)
                n = keep_best(scratch, n, k, -(alpha * ssim(away, max_distance) + (1.0 - alpha) * text), row)
        for j in range(first, after):
            if points.terms[j] < n_terms:
                scratch.dense[points.terms[j]] = 0.0
        radii[i] = math.inf
        if n == k and alpha > 0.0 and -scratch.best[k - 1] > 1.0 - alpha:
            radii[i] = max_distance * (1.0 - (-scratch.best[k - 1] - (1.0 - alpha)) / alpha)


def scratch_for(n_terms: int, most: int) -> RadiiScratch:
    """Scratch for words up to `n_terms` and any k up to `most`."""
    return RadiiScratch(np.zeros(n_terms), np.zeros(most), np.zeros(most, np.int32))
