"""Words of messages: texts or lists go in and rows of terms come out, at once or spelled first for many brokers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.columns.arena import ranges, starts_of
from nearcast.text.strings import arrow_bytes
from nearcast.text.vocabulary import Terms, Vocabulary
from nearcast.text.words import from_lists, tokenise

WORDS = pa.list_(pa.dictionary(pa.int32(), pa.string()))
COUNTS = pa.list_(pa.int32())


class Spelled(NamedTuple):
    """The words of messages, split and folded: those of a row are distinct and in the order of their bytes."""

    words: pa.Array  # WORDS
    counts: pa.Array  # COUNTS: how often the row has each


class SpelledMessages(NamedTuple):
    """Messages whose words were spelled before, so that nobody looks at their texts."""

    table: pa.Table  # the columns of messages; `text` and `keywords` may be left out
    words: pa.Array | pa.ChunkedArray  # WORDS
    counts: pa.Array | pa.ChunkedArray  # COUNTS

    @property
    def spelled(self) -> Spelled:
        """Their words in one piece."""
        joined = pa.table({"words": self.words, "counts": self.counts}).combine_chunks()
        columns = (joined.column(name) for name in ("words", "counts"))
        return Spelled(*(c.chunk(0) if c.num_chunks else pa.array([], c.type) for c in columns))


def spell(texts: pa.Array, keywords: pa.Array) -> Spelled:
    """The words of messages that have either a text or keywords; null for any other row."""
    vocabulary = Vocabulary()
    terms = encode(texts, keywords, vocabulary)
    neither = pc.equal(texts.is_null(), keywords.is_null())
    dictionary = vocabulary.keys.to_arrow_strings(np.arange(vocabulary.capacity, dtype=np.int32))
    starts = pa.array(terms.row_start.astype(np.int32))
    words = pa.DictionaryArray.from_arrays(pa.array(terms.terms), dictionary)
    made = (pa.ListArray.from_arrays(starts, values, mask=neither) for values in (words, pa.array(terms.counts)))
    return Spelled(*made)


def encode_spelled(spelled: Spelled, vocabulary: Vocabulary) -> Terms:
    """Rows of terms: each word of the dictionary is looked up once, whatever the number of messages that have it."""
    words = spelled.words.flatten()
    codes = words.indices.to_numpy()
    used = np.flatnonzero(np.bincount(codes, minlength=len(words.dictionary)))
    terms = np.zeros(len(words.dictionary), dtype=np.int32)
    terms[used] = vocabulary.enter(*arrow_bytes(words.dictionary.take(pa.array(used))))
    lengths = pc.list_value_length(spelled.words).to_numpy()
    return Terms(starts_of(lengths), terms[codes], spelled.counts.flatten().to_numpy().copy())


def encode(texts: pa.Array, keywords: pa.Array | None, vocabulary: Vocabulary) -> Terms:
    """Rows of terms; each message has either a text or keywords."""
    terms = vocabulary.encode(tokenise(texts))
    if keywords is None:
        return terms
    listed = vocabulary.encode(from_lists(keywords))
    n_text, n_listed = np.diff(terms.row_start), np.diff(listed.row_start)
    starts = np.where(n_listed > 0, listed.row_start[:-1] + terms.terms.size, terms.row_start[:-1])
    lengths = n_text + n_listed
    where = ranges(starts, lengths)
    return Terms(
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate([terms.terms, listed.terms])[where],
        np.concatenate([terms.counts, listed.counts])[where],
    )
