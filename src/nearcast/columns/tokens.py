"""Words of messages: texts or lists go in and rows of terms come out, at once or spelled first for many brokers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.columns.arena import Ints, ranges, starts_of
from nearcast.jit import kernel
from nearcast.text.analysis import Analysis
from nearcast.text.strings import arrow_bytes
from nearcast.text.vocabulary import Terms, Vocabulary
from nearcast.text.words import Words, from_lists, tokenise

WORDS = pa.list_(pa.dictionary(pa.int32(), pa.string()))
COUNTS = pa.list_(pa.int32())


class Order(NamedTuple):
    """The words of messages in their order; those of lists have none, and are here only if words are stemmed."""

    lengths: Ints  # int32[n_rows]: of a text its words; of a list 0, or minus its words
    terms: Ints  # int32[]: one row after another
    surfaces: Ints  # int32[]: what they were before they were stemmed; without a stemmer the same array


class Spelled(NamedTuple):
    """The words of messages, split and folded: those of a row are distinct and in the order of their bytes."""

    words: pa.Array  # WORDS
    counts: pa.Array  # COUNTS: how often the row has each
    order: (
        pa.Array
    )  # COUNTS: the words of a text in their order, each by its place in the row; of a list as in `Order`,
    # every place p as ~p
    surfaces: pa.Array  # WORDS: beside `order`, what words were before they were stemmed; none without a stemmer


class SpelledMessages(NamedTuple):
    """Messages whose words were spelled before, so that nobody looks at their texts."""

    table: pa.Table  # the columns of messages; `text` and `keywords` may be left out
    words: pa.Array | pa.ChunkedArray  # WORDS
    counts: pa.Array | pa.ChunkedArray  # COUNTS
    order: pa.Array | pa.ChunkedArray  # COUNTS
    surfaces: pa.Array | pa.ChunkedArray  # WORDS

    @property
    def spelled(self) -> Spelled:
        """Their words in one piece."""
        joined = pa.table({name: getattr(self, name) for name in Spelled._fields}).combine_chunks()
        columns = (joined.column(name) for name in Spelled._fields)
        return Spelled(*(c.chunk(0) if c.num_chunks else pa.array([], c.type) for c in columns))


def spell(texts: pa.Array, keywords: pa.Array, analysis: Analysis) -> Spelled:
    """The words of messages that have either a text or keywords, as an analyzer has them; null for any other row.

    Examples
    --------
    >>> from nearcast.model.analyzer import Analyzer
    >>> texts, lists = pa.array(["burning fires"]), pa.nulls(1, pa.list_(pa.string()))
    >>> spelled = spell(texts, lists, Analysis(Analyzer(stemmer="english")))
    >>> spelled.words.to_pylist(), spelled.surfaces.to_pylist()
    ([['burn', 'fire']], [['burning', 'fires']])
    """
    vocabulary = Vocabulary()
    vocabulary.analysis = analysis
    terms, order = encode(texts, keywords, vocabulary)
    neither = pc.equal(texts.is_null(), keywords.is_null())
    dictionary = vocabulary.keys.to_arrow_strings(np.arange(vocabulary.capacity, dtype=np.int32))
    in_order = starts_of(np.abs(order.lengths))
    stemmed = analysis.analyzer.stemmer is not None
    before = (in_order, order.surfaces, dictionary) if stemmed else (0 * in_order, order.surfaces[:0], dictionary[:0])
    lists = (
        (terms.row_start, pa.DictionaryArray.from_arrays(pa.array(terms.terms), dictionary)),
        (terms.row_start, pa.array(terms.counts)),
        (in_order, pa.array(places_in_rows(terms, order))),
        (before[0], pa.DictionaryArray.from_arrays(pa.array(before[1]), before[2])),
    )
    made = (
        pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), values, mask=neither) for starts, values in lists
    )
    return Spelled(*made)


def places_in_rows(terms: Terms, order: Order) -> Ints:
    """Where in the distinct terms of its row each word stands; for words of lists ~p instead of p."""
    place_of = np.empty(int(terms.terms.max(initial=-1)) + 1, np.int32)
    places = np.empty(order.terms.size, np.int32)
    find_places(terms, order.lengths, order.terms, place_of, places)
    return places


@kernel
def find_places(rows: Terms, lengths: Ints, in_order: Ints, place_of: Ints, places: Ints) -> None:
    """Write what `places_in_rows` gives; `place_of` has room for every term."""
    at = 0
    for row in range(lengths.size):
        first = rows.row_start[row]
        for i in range(first, rows.row_start[row + 1]):
            place_of[rows.terms[i]] = i - first
        listed = lengths[row] < 0
        for _ in range(abs(lengths[row])):
            place = place_of[in_order[at]]
            places[at] = ~place if listed else place
            at += 1


def encode_spelled(spelled: Spelled, vocabulary: Vocabulary, ordered: bool = True) -> tuple[Terms, Order]:
    """Rows of terms: each word of the dictionary is looked up once, whatever the number of messages that have it."""
    row_start = starts_of(pc.list_value_length(spelled.words).to_numpy())
    rows = Terms(row_start, _terms_of(spelled.words, vocabulary), spelled.counts.flatten().to_numpy().copy())
    if not ordered:
        return rows, _no_order(len(spelled.words))
    lengths = pc.list_value_length(spelled.order).to_numpy().astype(np.int32)
    places = spelled.order.flatten().to_numpy()
    listed = places < 0
    in_order = rows.terms[np.where(listed, ~places, places) + np.repeat(row_start[:-1], lengths)]
    if listed.any():
        lengths[np.repeat(np.arange(lengths.size), lengths)[listed]] *= -1
    stemmed = vocabulary.analysis.analyzer.stemmer is not None
    return rows, Order(lengths, in_order, _terms_of(spelled.surfaces, vocabulary) if stemmed else in_order)


def _terms_of(lists: pa.Array, vocabulary: Vocabulary) -> Ints:
    words = lists.flatten()
    codes = words.indices.to_numpy()
    used = np.flatnonzero(np.bincount(codes, minlength=len(words.dictionary)))
    terms = np.zeros(len(words.dictionary), dtype=np.int32)
    terms[used] = vocabulary.enter(*arrow_bytes(words.dictionary.take(pa.array(used))))
    found: Ints = terms[codes]
    return found


def encode(
    texts: pa.Array, keywords: pa.Array | None, vocabulary: Vocabulary, ordered: bool = True
) -> tuple[Terms, Order]:
    """Rows of terms; each message has either a text or keywords. Without `ordered` words are given no order."""
    terms, order = _encode(*vocabulary.analysis.texts(tokenise(texts)), vocabulary, ordered)
    if keywords is None:
        return terms, order
    listed, items = _encode(*vocabulary.analysis.items(from_lists(keywords)), vocabulary, ordered)
    if items.surfaces is not items.terms:
        order = _side_by_side(order, items)
    n_text, n_listed = np.diff(terms.row_start), np.diff(listed.row_start)
    starts = np.where(n_listed > 0, listed.row_start[:-1] + terms.terms.size, terms.row_start[:-1])
    lengths = n_text + n_listed
    where = ranges(starts, lengths)
    rows = Terms(
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate([terms.terms, listed.terms])[where],
        np.concatenate([terms.counts, listed.counts])[where],
    )
    return rows, order


def _no_order(n: int) -> Order:
    none = np.zeros(0, np.int32)
    return Order(np.zeros(n, np.int32), none, none)


def _encode(words: Words, surfaces: Words, vocabulary: Vocabulary, ordered: bool) -> tuple[Terms, Order]:
    if not ordered:
        return vocabulary.encode(words), _no_order(words.row_start.size - 1)
    terms, in_order = vocabulary.encode_in_order(words)
    before = in_order if surfaces is words else vocabulary.enter(surfaces.data, surfaces.word_start)
    return terms, Order(np.diff(words.row_start).astype(np.int32), in_order, before)


def _side_by_side(texts: Order, lists: Order) -> Order:
    """Rows of which each has the words of a text or those of a list, and lists have no order."""
    starts = starts_of(texts.lengths)[:-1], starts_of(lists.lengths)[:-1] + texts.terms.size
    lengths = texts.lengths - lists.lengths
    where = ranges(np.where(lengths < 0, starts[1], starts[0]), np.abs(lengths))
    columns = (np.concatenate(pair)[where] for pair in zip(texts[1:], lists[1:], strict=True))
    return Order(lengths, *columns)
