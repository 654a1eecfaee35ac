"""One text at a time for those who ask for single words only: words that nobody has asked for get no term."""

from __future__ import annotations

from nearcast.jit import kernel
from nearcast.text.key_kernels import UNKNOWN, KeysLayout, find_many
from nearcast.text.one_text import TextRoom
from nearcast.text.vocabulary import head_of, sort_row
from nearcast.text.words import ALL_DONE, N_WORDS, FoldTable, Words, split_many

_FAILED = -1


@kernel
def encode_known(table: FoldTable, keys: KeysLayout, room: TextRoom) -> int:
    """Write those terms of a text that there are, by their bytes; returns how many, or _FAILED if it is too long."""
    room.state[:] = 0
    if split_many(table, room.data, room.starts, room.words, room.state) != ALL_DONE:
        return _FAILED
    n_words, n_known = room.state[N_WORDS], 0
    words = Words(room.words.data, room.words.word_start[: n_words + 1], room.words.row_start)
    find_many(keys, words.data, words.word_start, room.near, room.in_order[:n_words])
    for word in range(n_words):
        if room.in_order[word] != UNKNOWN:
            room.terms[n_known] = room.in_order[word]
            room.heads[n_known] = head_of(words, word)
            n_known += 1
    sort_row(keys, room.heads, room.terms, 0, n_known)
    n = 0
    for i in range(n_known):
        if n > 0 and room.terms[i] == room.terms[n - 1]:
            room.repeats[n - 1] += 1
        else:
            room.terms[n], room.repeats[n] = room.terms[i], 1
            n += 1
    return n
