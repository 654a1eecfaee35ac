"""Splits an Arrow column of texts or keyword lists into words: folded UTF-8 bytes, and where words and rows start.

The rules are those of `model.words`, a character at a time: a table says for every code point what it becomes. That is
exact unless a character can merge with the one before it (a combining accent, a Hangul vowel); such rows, rare in
practice, are handed to `model.words` itself. The table is filled as code points are first met.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any, NamedTuple
from unicodedata import combining, decomposition, normalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.jit import NEED_ROOM, kernel
from nearcast.model.words import PLAIN, RESERVED, fold, words_of
from nearcast.text.strings import Bytes, Starts, Whole, arrow_bytes, strings_to_arrow

# what a code point becomes; any larger code is offset << 6 | length of its folded bytes
UNSEEN = 0  # not known yet
SEPARATOR = 1  # nothing that belongs to a word
COMPLEX = 2  # may merge with the character before it
AS_IS = 3  # itself

# answers of split_many beside NEED_ROOM
ALL_DONE = 0
MEETS_UNSEEN = 1  # a code point that must be entered in the table first
MEETS_COMPLEX = 2  # a row for `model.words`

# positions in the state of split_many
ROW = 0  # the row to split next
N_BYTES = 1  # bytes written
N_WORDS = 2  # words written
CODE_POINT = 3  # the code point not yet in the table

EXPANSION = 12  # folding makes no text more than this many times longer, in UTF-8 (U+FDFA: 3 bytes become 33)
_BLOCK = 128  # code points entered in the table at once


class Words(NamedTuple):
    """The words of some rows, in their order, repeats included."""

    data: Bytes  # uint8[n_bytes]: folded UTF-8 of all words
    word_start: Starts  # int64[n_words + 1]: word i is data[word_start[i]:word_start[i + 1]]
    row_start: Starts  # int64[n_rows + 1]: row r owns words row_start[r]:row_start[r + 1]


class FoldTable(NamedTuple):
    """What every code point becomes."""

    ascii: Bytes  # uint8[128]: the lower-case byte, 0 for a separator
    codes: npt.NDArray[np.int32]  # int32[0x110000]: a code as above
    folded: Bytes  # uint8[]: folded bytes, a space for each separator among them


@kernel
def decode(data: Bytes, start: Whole, end: Whole) -> tuple[Whole, int]:
    """The code point at `start` and its width in bytes; width 0 if the bytes are not UTF-8."""
    lead = np.int64(data[start])
    width = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    if lead < 0xC2 or lead > 0xF4 or start + width > end:
        return np.int64(0), 0
    point = lead & (0x7F >> width)
    for i in range(start + 1, start + width):
        byte = np.int64(data[i])
        if byte & 0xC0 != 0x80:
            return np.int64(0), 0
        point = point << 6 | (byte & 0x3F)
    if width == 3 and (point < 0x800 or 0xD800 <= point < 0xE000):
        return np.int64(0), 0
    if width == 4 and (point < 0x10000 or point > 0x10FFFF):
        return np.int64(0), 0
    return point, width


@kernel
def split_many(table: FoldTable, data: Bytes, starts: Starts, words: Words, state: Starts) -> int:
    """Write the words of every row from state[ROW] on; stop before the first row that cannot be done.

    Returns ALL_DONE, NEED_ROOM, MEETS_UNSEEN or MEETS_COMPLEX, and says in `state` how far it came.
    """
    to, n = state[N_BYTES], state[N_WORDS]
    for row in range(state[ROW], starts.size - 1):
        i, end = starts[row], starts[row + 1]
        state[ROW], state[N_BYTES], state[N_WORDS] = row, to, n
        room = EXPANSION * (end - i)
        if to + room > words.data.size or n + room + 1 > words.word_start.size:
            return NEED_ROOM
        first = to  # of the word being written
        while i < end:
            byte = data[i]
            if byte < 128:
                i += 1
                lower = table.ascii[byte]
                if lower != 0:
                    words.data[to] = lower
                    to += 1
                elif to > first:
                    n += 1
                    words.word_start[n] = first = to
                continue
            point, width = decode(data, i, end)
            if width == 0:
                return MEETS_COMPLEX
            code = np.int64(table.codes[point])
            if code == UNSEEN:
                state[CODE_POINT] = point
                return MEETS_UNSEEN
            if code == COMPLEX:
                return MEETS_COMPLEX
            if code == AS_IS:
                for j in range(width):
                    words.data[to + j] = data[i + j]
                to += width
            elif code == SEPARATOR:
                if to > first:
                    n += 1
                    words.word_start[n] = first = to
            else:
                for j in range(code >> 6, (code >> 6) + (code & 63)):
                    lower = table.folded[j]
                    if lower != 32:
                        words.data[to] = lower
                        to += 1
                    elif to > first:
                        n += 1
                        words.word_start[n] = first = to
            i += width
        if to > first:
            n += 1
            words.word_start[n] = to
        words.row_start[row + 1] = n
    state[ROW], state[N_BYTES], state[N_WORDS] = starts.size - 1, to, n
    return ALL_DONE


def tokenise(column: pa.Array | pa.ChunkedArray) -> Words:
    """The words of every text of a column of strings; a null has none.

    Examples
    --------
    >>> words = tokenise(pa.array(["New #ramen!", None, "ＲＡＭＥＮ"]))
    >>> words.data.tobytes(), words.word_start.tolist(), words.row_start.tolist()
    (b'newramenramen', [0, 3, 8, 13], [0, 2, 2, 3])
    """
    data, starts = arrow_bytes(column)
    n_rows, longest = len(starts) - 1, int(np.diff(starts).max(initial=0))
    words = Words(
        np.empty(len(data) + EXPANSION * longest, np.uint8),
        np.zeros(len(data) // 2 + n_rows + EXPANSION * longest + 1, np.int64),
        np.zeros(n_rows + 1, np.int64),
    )
    state = np.zeros(4, np.int64)
    while True:
        answer = split_many(FOLD_TABLE, data, starts, words, state)
        if answer == MEETS_UNSEEN:
            _enter_block(int(state[CODE_POINT]))
        elif answer == MEETS_COMPLEX:
            row = int(state[ROW])
            _write_row(words, state, words_of(data[starts[row] : starts[row + 1]].tobytes().decode(errors="replace")))
        elif answer == NEED_ROOM:
            words = Words(_doubled(words.data), _doubled(words.word_start), words.row_start)
        else:
            return Words(words.data[: state[N_BYTES]], words.word_start[: state[N_WORDS] + 1], words.row_start)


def as_given(column: pa.Array) -> Words:
    """The words of every row of a column of string lists, as they are."""
    lengths = pc.list_value_length(column).to_numpy()
    return Words(*arrow_bytes(column.flatten()), np.append(0, np.cumsum(lengths, dtype=np.int64)))


def from_lists(column: pa.Array | pa.ChunkedArray) -> Words:
    """The words of every row of a column of string lists: folded, not split; empty ones and nulls are dropped.

    One that begins with a byte that is reserved is filed behind PLAIN (`model.words`).

    Examples
    --------
    >>> words = from_lists(pa.array([["New York", ""], None, ["PIZZA"]]))
    >>> words.data.tobytes(), words.word_start.tolist(), words.row_start.tolist()
    (b'new yorkpizza', [0, 8, 13], [0, 1, 1, 2])
    """
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    data, starts = _set_apart(*_folded(*arrow_bytes(pc.list_flatten(column))))
    kept = np.zeros(len(starts), np.int64)  # words kept among the first i
    np.cumsum(starts[1:] > starts[:-1], out=kept[1:])
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return Words(data, np.append(starts[:-1][starts[1:] > starts[:-1]], starts[-1]), kept[ends])


def _folded(data: Bytes, starts: Starts) -> tuple[Bytes, Starts]:
    """Every string folded: ASCII by table, the others once for each that is different."""
    wide = np.zeros(len(data) + 1, np.int64)
    np.cumsum(data > 127, out=wide[1:])
    data = _LOWER[data]
    mask = wide[starts[1:]] > wide[starts[:-1]]
    if not mask.any():
        return data, starts
    strings = strings_to_arrow(data, starts)  # lower-case ASCII folds to the same
    found = strings.filter(mask).dictionary_encode()
    distinct = found.dictionary.cast(pa.binary()).to_pylist()
    folded = pa.array([fold(word.decode(errors="replace")) for word in distinct], strings.type)
    return arrow_bytes(pc.replace_with_mask(strings, mask, folded.take(found.indices)))


def _set_apart(data: Bytes, starts: Starts) -> tuple[Bytes, Starts]:
    """Every string, behind PLAIN if it begins with a byte that is reserved."""
    firsts = np.append(data, 255)[starts[:-1]]
    reserved = (firsts <= ord(RESERVED)) & (starts[1:] > starts[:-1])
    if not reserved.any():
        return data, starts
    data = np.insert(data, starts[:-1][reserved], ord(PLAIN))
    return data, starts + np.append(0, np.cumsum(reserved))


def _write_row(words: Words, state: Starts, row: list[str]) -> None:
    """Write the words of the row state[ROW]; split_many has seen to the room."""
    to, n = int(state[N_BYTES]), int(state[N_WORDS])
    for word in row:
        encoded = np.frombuffer(word.encode(), np.uint8)
        words.data[to : to + len(encoded)] = encoded
        to += len(encoded)
        n += 1
        words.word_start[n] = to
    words.row_start[state[ROW] + 1] = n
    state[ROW], state[N_BYTES], state[N_WORDS] = state[ROW] + 1, to, n


def _doubled(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.concatenate([array, np.zeros_like(array)])


@cache
def merging_characters() -> frozenset[str]:
    """Every character that NFKC may merge into the one before it.

    These are the second halves of canonical pairs, which all lie below U+20000, and the Hangul vowels and finals,
    which unicodedata merges by arithmetic and does not list.
    """
    merging = {chr(point) for point in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}
    for character in map(chr, range(0xA0, 0x20000)):
        parts = decomposition(character).split()
        if len(parts) == 2 and parts[0][0] != "<" and normalize("NFC", normalize("NFD", character)) == character:
            merging.add(chr(int(parts[1], 16)))
    return frozenset(merging)


def _meaning(character: str) -> bytes | int:
    """SEPARATOR, COMPLEX, AS_IS or the folded bytes of a character.

    NFKC reorders the marks that follow a letter. Those that cannot merge are separators, whose order does not matter;
    the one exception, a mark that case-folds to a letter (the Greek iota subscript), is complex. Folding is repeated,
    so that the folded form must not begin with what may merge either.
    """
    if "\ud800" <= character <= "\udfff":
        return COMPLEX
    marks = [part for part in normalize("NFKC", character) if combining(part)]
    folded = fold(character)
    first = {normalize("NFKD", form)[0] for form in (character, folded)}
    if first & merging_characters() or any(fold(mark).isalnum() for mark in marks):
        return COMPLEX
    in_words = "".join(part if part.isalnum() else " " for part in folded)
    if in_words.isspace():
        return SEPARATOR
    return AS_IS if folded == character else in_words.encode()


def _enter_block(point: int) -> None:
    """Enter the code points around `point` in the table; bytes before codes, since others may be reading."""
    global _folded_end
    with _entering:
        if FOLD_TABLE.codes[point] != UNSEEN:
            return
        for near in range(point - point % _BLOCK, point - point % _BLOCK + _BLOCK):
            meaning = _meaning(chr(near))
            if isinstance(meaning, bytes):
                start, _folded_end = _folded_end, _folded_end + len(meaning)
                assert len(meaning) < min(64, EXPANSION * len(chr(near).encode()) + 1), "folding grows past its bound"
                FOLD_TABLE.folded[start:_folded_end] = np.frombuffer(meaning, np.uint8)
                meaning = start << 6 | len(meaning)
            FOLD_TABLE.codes[near] = meaning


_entering = threading.Lock()
_folded_end = 1  # bytes of FOLD_TABLE.folded in use; none at 0, so that every offset gives a code above AS_IS
FOLD_TABLE = FoldTable(
    np.array([ord(chr(i).lower()) if chr(i).isalnum() else 0 for i in range(128)], np.uint8),
    np.zeros(0x110000, np.int32),
    np.zeros(1 << 16, np.uint8),  # all of Unicode 14 takes 17,063 bytes
)
_LOWER = np.array([ord(chr(i).lower()) if i < 128 else i for i in range(256)], np.uint8)
