"""Counts over a sample of messages: how many lie in a box, hold a word, or both; those to come are taken to be alike.

A sample is bounded: of more messages some are taken, evenly spread. Its messages are numbered from south to north, so
that those between two latitudes, or around one, stand side by side, in the whole sample and in the list of each word.
That order knows no date line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from nearcast.columns.arena import Array, Floats, Ints, Longs, owned
from nearcast.columns.decode_messages import decode_messages, encode_batch
from nearcast.jit import kernel
from nearcast.model.analyzer import PLAIN_RULE, Analyzer
from nearcast.space.distance import EUCLIDEAN, chord_metres, wrap
from nearcast.space.space import Space
from nearcast.text.vocabulary import Vocabulary
from nearcast.text.weights import Weights

SAMPLE_ROWS = 100_000  # messages that are looked at

_RADIANS = math.pi / 180.0


class SampleLayout(NamedTuple):
    """Messages from south to north, and the lists of their words."""

    xs: Floats  # float64[n], wrapped under haversine
    ys: Floats  # float64[n], ascending
    spots: Floats  # float64[n, 3]: see `spot_of`
    term_start: Longs  # int64[n + 1]: message i holds terms[term_start[i]:term_start[i + 1]]
    terms: Ints
    parts: Floats  # float64[]: of the message's unit tf-idf vector, beside `terms`
    list_start: Longs  # int64[n_terms + 1]: term t is held by rows[list_start[t]:list_start[t + 1]]
    rows: Ints  # messages, ascending


class Rectangle(NamedTuple):
    """A closed box."""

    x0: float
    y0: float
    x1: float
    y1: float


@kernel
def spot_of(metric: Any, x: Any, y: Any) -> Any:
    """A point whose squared distance to another orders as distances do: on a sphere of radius 1/2 under haversine."""
    if metric == EUCLIDEAN:
        return x, y, 0.0
    across = 0.5 * math.cos(y * _RADIANS)
    return across * math.cos(x * _RADIANS), across * math.sin(x * _RADIANS), 0.5 * math.sin(y * _RADIANS)


@kernel
def spots_of(metric: Any, xs: Any, ys: Any, spots: Any) -> None:
    """`spot_of` many."""
    for i in range(xs.size):
        spots[i, 0], spots[i, 1], spots[i, 2] = spot_of(metric, xs[i], ys[i])


@kernel
def length_of(metric: Any, squared: Any) -> Any:
    """The distance that belongs to a squared distance of spots: in coordinate units, or in metres."""
    return math.sqrt(squared) if metric == EUCLIDEAN else chord_metres(squared)


@kernel
def wrap_many(xs: Any) -> None:
    """Wrap longitudes in place."""
    for i in range(xs.size):
        xs[i] = wrap(xs[i])


@kernel
def first_from(ys: Any, y: Any) -> Any:
    """The first message that lies no farther south than `y`."""
    low, high = 0, ys.size
    while low < high:
        middle = (low + high) // 2
        if ys[middle] < y:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def count_box(sample: Any, box: Any) -> Any:
    """How many messages lie in a box.

    Paper: [DKMSKS] section 3.2, |O_R| of equation 2.
    """
    n = 0
    for i in range(first_from(sample.ys, box.y0), sample.ys.size):
        if sample.ys[i] > box.y1:
            break
        n += box.x0 <= sample.xs[i] <= box.x1
    return n


@kernel
def count_words(sample: Any, box: Any, counts: Any, one: Any) -> None:
    """Count how many messages in a box hold each word: adds `one` to `counts` for each; -1 subtracts them again.

    Paper: [DKMSKS] section 4.1, |O_R,λ| of equation 4, for all λ at once.
    """
    for i in range(first_from(sample.ys, box.y0), sample.ys.size):
        if sample.ys[i] > box.y1:
            break
        if box.x0 <= sample.xs[i] <= box.x1:
            for j in range(sample.term_start[i], sample.term_start[i + 1]):
                counts[sample.terms[j]] += one


@kernel
def count_word(sample: Any, term: Any, box: Any) -> Any:
    """How many messages in a box hold one word."""
    ys, rows = sample.ys, sample.rows
    low, end = sample.list_start[term], sample.list_start[term + 1]
    if box.x0 == -math.inf and box.y0 == -math.inf and box.x1 == math.inf and box.y1 == math.inf:
        return end - low
    high = end
    while low < high:
        middle = (low + high) // 2
        if ys[rows[middle]] < box.y0:
            low = middle + 1
        else:
            high = middle
    n = 0
    while low < end and ys[rows[low]] <= box.y1:
        n += box.x0 <= sample.xs[rows[low]] <= box.x1
        low += 1
    return n


class Sample:
    """Messages like those to come.

    Parameters
    ----------
    space, weights
        Those of the broker.
    messages
        In the columnar form; rows that are malformed are skipped. None for none.
    live
        How many messages the window holds. The k nearest of a window that holds a tenth of what the sample does lie
        farther away, as the 10 k nearest of the sample, and change ten times as often. None: as many as the sample.
    """

    def __init__(
        self,
        space: Space,
        messages: pa.Table | None = None,
        weights: Weights | None = None,
        live: float | None = None,
        analyzer: Analyzer = PLAIN_RULE,
    ) -> None:
        self.space = space
        self._live = live
        self.vocabulary = Vocabulary(weights, analyzer)
        batch = decode_messages(_thinned(messages), space, None)
        order = np.argsort(batch.y, kind="stable")
        xs, ys = owned(batch.x[order]), owned(batch.y[order])
        if space.metric_code != EUCLIDEAN:
            wrap_many(xs)
        spots = np.empty((xs.size, 3))
        spots_of(space.metric_code, xs, ys, spots)
        encoded, _ = encode_batch(batch, self.vocabulary, ordered=False)
        lengths = np.diff(encoded.row_start)
        owner = np.repeat(np.argsort(order, kind="stable"), lengths)
        by_owner = np.argsort(owner, kind="stable")
        owner, terms = owner[by_owner], encoded.terms[by_owner]
        tfidf = encoded.counts[by_owner] * self.vocabulary.idf[terms]
        norms = np.sqrt(np.bincount(owner, tfidf * tfidf, xs.size))
        by_term = np.argsort(terms, kind="stable")
        self.layout = SampleLayout(
            xs, ys, spots, _starts(owner, xs.size), owned(terms), tfidf / np.maximum(norms[owner], 1e-300),
            _starts(terms, self.vocabulary.capacity), owned(owner[by_term].astype(np.int32)),
        )  # fmt: skip
        self._note_sizes()

    def _note_sizes(self) -> None:
        self.n = self.layout.ys.size
        self.n_terms = self.layout.list_start.size - 1  # of words that the sample holds; words with larger terms: none
        self.holding = np.diff(self.layout.list_start)  # int64[n_terms]: messages that hold each word
        self.per_live = 1.0 if not self._live else self.n / self._live  # messages of the sample for a live one

    def state(self) -> dict[str, Any]:
        """All there is to keep."""
        space = {"bounds": np.array(self.space.bounds), "metric": self.space.metric, "far": self.space.max_distance}
        words = {"vocabulary": self.vocabulary.state(), "analyzer": self.vocabulary.analysis.analyzer.state()}
        return {"space": space, **words, "live": self._live, **self.layout._asdict()}

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> Self:
        """The sample of a state."""
        space = state["space"]
        live = state.get("live")
        made = cls(Space(tuple(space["bounds"].tolist()), space["metric"], space["far"]), live=live and float(live))
        made.vocabulary = Vocabulary(analyzer=Analyzer(**state["analyzer"])).load(state["vocabulary"])
        made.layout = SampleLayout(*(owned(state[name]) for name in SampleLayout._fields))
        made._note_sizes()
        return made


def _thinned(messages: pa.Table | None) -> pa.Table:
    """Places and words of at most `SAMPLE_ROWS` messages, evenly spread over those given."""
    if messages is None or not messages.num_rows:
        return pa.table(
            {"id": pa.array([], pa.int64()), "lon": np.zeros(0), "lat": np.zeros(0), "text": pa.array([], pa.string())}
        )
    n = min(messages.num_rows, SAMPLE_ROWS)
    kept = [name for name in ("lon", "lat", "text", "keywords") if name in messages.column_names]
    taken = messages.select(kept).take(pa.array(np.arange(n) * messages.num_rows // n))
    return taken.append_column("id", pa.array(np.arange(n))).combine_chunks()


def _starts(owners: Array, n: int) -> Longs:
    """Where the entries of each of `n` owners start, entries being sorted by owner or not."""
    starts = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(owners, minlength=n), out=starts[1:])
    return starts
