"""One text at a time: its terms without Arrow and without new arrays, by the rules and kernels of `words`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.held import unchanged
from nearcast.jit import kernel
from nearcast.text.key_kernels import BLOCK, KeysLayout, Numbers, add_many
from nearcast.text.strings import Bytes, Starts
from nearcast.text.vocabulary import Terms, Vocabulary, encode_many
from nearcast.text.words import ALL_DONE, EXPANSION, FOLD_TABLE, N_WORDS, FoldTable, Words, split_many

MOST_BYTES = 1024  # of a text that is encoded this way
_ROOM = EXPANSION * MOST_BYTES + 1
_FAILED = -1
N_IN_ORDER, N_DISTINCT, N_NEW = range(3)  # positions in `counts`


class TextRoom(NamedTuple):
    """Scratch of one text."""

    data: Bytes  # uint8[MOST_BYTES]: the text
    starts: Starts  # int64[2]: where it starts, and ends
    words: Words
    state: Starts  # int64[4]: of `split_many`
    near: Starts  # int64[BLOCK + 1]
    heads: Starts  # int64[]
    in_order: Numbers  # int32[]: out: the term of every word
    terms: Numbers  # int32[]: out: distinct terms, by their bytes
    repeats: Numbers  # int32[]: out: how often each is there
    row_start: Starts  # int64[2]
    counts: Starts  # int64[3]: out: words, distinct ones, and terms that have no weight yet


@kernel
def encode_text(table: FoldTable, keys: KeysLayout, idf: npt.NDArray[np.float64], room: TextRoom) -> int:
    """Write the terms of a text; returns how many are distinct, or _FAILED: then it takes the way of columns."""
    room.state[:] = 0
    if split_many(table, room.data, room.starts, room.words, room.state) != ALL_DONE:
        return _FAILED
    n = room.state[N_WORDS]
    words = Words(room.words.data, room.words.word_start[: n + 1], room.words.row_start)
    if add_many(keys, words.data, words.word_start, 0, room.near, False, room.in_order[:n]) < n:
        return _FAILED
    room.counts[N_NEW] = 0
    for i in range(n):
        term = room.in_order[i]
        room.terms[i] = term
        if term >= idf.size or np.isnan(idf[term]):
            room.counts[N_NEW] += 1
    distinct = encode_many(keys, words, room.heads[:n], Terms(room.row_start, room.terms[:n], room.repeats[:n]))
    room.counts[N_IN_ORDER], room.counts[N_DISTINCT] = n, distinct
    return distinct


class TextCall(NamedTuple):
    """All that `encode_text` reads and writes."""

    table: FoldTable
    keys: KeysLayout
    idf: npt.NDArray[np.float64]
    room: TextRoom


class OneText:
    """One text after another that kernels encode, for a vocabulary with the plain rule."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._bytes = bytearray(MOST_BYTES)
        self._call: TextCall | None = None
        words = Words(np.empty(_ROOM, np.uint8), np.zeros(_ROOM, np.int64), np.zeros(2, np.int64))
        most = MOST_BYTES * EXPANSION
        self.room = TextRoom(
            np.frombuffer(self._bytes, np.uint8), np.zeros(2, np.int64), words, np.zeros(4, np.int64),
            np.zeros(BLOCK + 1, np.int64), np.zeros(most, np.int64), np.zeros(most, np.int32),
            np.zeros(most, np.int32), np.zeros(most, np.int32), np.zeros(2, np.int64), np.zeros(3, np.int64),
        )  # fmt: skip

    def hold(self, text: str) -> bool:
        """Write the bytes of a text to `room`; False if there is no room for them, and it takes the way of columns."""
        if len(text) > MOST_BYTES:
            return False
        raw = text.encode()
        n_bytes = len(raw)
        if n_bytes > MOST_BYTES:
            return False
        self._bytes[:n_bytes] = raw
        self.room.starts[1] = n_bytes
        return True

    @property
    def call(self) -> TextCall:
        """What kernels encode the text with that is held."""
        vocabulary = self._vocabulary
        layout, idf = vocabulary.keys.layout, vocabulary.idf
        call = self._call = unchanged(self._call, TextCall, FOLD_TABLE, layout, idf, self.room)
        return call

    def weigh_new(self) -> None:
        """The text that was encoded has words without a weight."""
        self._vocabulary.weigh_text(self.room.in_order, self.room.counts.item(N_IN_ORDER))
