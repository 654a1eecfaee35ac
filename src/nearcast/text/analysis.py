"""Words in bulk go through an analyzer, each different one once: what becomes of it is kept in a table."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from nearcast.jit import kernel
from nearcast.model.analyzer import Analyzer, Form
from nearcast.model.words import PLAIN, set_apart
from nearcast.text.key_kernels import Numbers
from nearcast.text.key_table import Keys
from nearcast.text.strings import Bytes, Starts
from nearcast.text.words import Words

MOST_KEPT = 1 << 20  # words in a table, before it starts over


class FormsLayout(NamedTuple):
    """What becomes of words, by their numbers in a table; arrays have room for more."""

    firsts: Starts  # int64[]: word i becomes the forms firsts[i]:firsts[i + 1]
    starts: Starts  # int64[]: where the bytes of each form start
    data: Bytes  # uint8[]


@kernel
def measure_forms(forms: FormsLayout, numbers: Numbers) -> tuple[int, int]:
    """How many forms words have, given by number, and of how many bytes."""
    n_forms, n_bytes = 0, 0
    for number in numbers:
        first, end = forms.firsts[number], forms.firsts[number + 1]
        n_forms += end - first
        n_bytes += forms.starts[end] - forms.starts[first]
    return n_forms, n_bytes


@kernel
def write_forms(forms: FormsLayout, numbers: Numbers, rows: Starts, out: Any) -> None:
    """Write the forms of words, given by number and row, one after another; there is room."""
    n, to = 0, 0
    for row in range(rows.size - 1):
        for i in range(rows[row], rows[row + 1]):
            for form in range(forms.firsts[numbers[i]], forms.firsts[numbers[i] + 1]):
                for at in range(forms.starts[form], forms.starts[form + 1]):
                    out.data[to] = forms.data[at]
                    to += 1
                n += 1
                out.word_start[n] = to
        out.row_start[row + 1] = n


class _Table:
    """Words and what a function made of them."""

    def __init__(self, make: Callable[[str], list[Form]], with_surfaces: bool) -> None:
        self._make = make
        self._with_surfaces = with_surfaces
        self._start_over()

    def _start_over(self) -> None:
        self._keys = Keys()
        self._n_known = 0  # words
        self._words = self._surfaces = FormsLayout(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(0, np.uint8))

    def look_up(self, words: Words) -> tuple[Words, Words]:
        """The forms of words, and their surfaces; the same object if these are the same."""
        if len(self._keys) > MOST_KEPT:
            self._start_over()
        numbers = self._keys.add_many(words.data, words.word_start)
        if self._keys.capacity > self._n_known:
            self._learn(np.arange(self._n_known, self._keys.capacity, dtype=np.int32))
        made = _written(self._words, numbers, words.row_start)
        return made, _written(self._surfaces, numbers, words.row_start) if self._with_surfaces else made

    def _learn(self, numbers: Numbers) -> None:
        data, starts = self._keys.take(numbers)
        text = data.tobytes()
        made = [self._make(text[lo:hi].decode()) for lo, hi in pairwise(starts.tolist())]
        words = [form.word.encode() for forms in made for form in forms]
        self._words = _longer(self._words, self._n_known, made, words)
        if self._with_surfaces:
            found = [form.surface.encode() for forms in made for form in forms]
            self._surfaces = _longer(self._surfaces, self._n_known, made, found)
        self._n_known += numbers.size


def _longer(known: FormsLayout, n_known: int, made: list[list[Form]], forms: list[bytes]) -> FormsLayout:
    """What is known of some words, and the forms of further ones."""
    n_forms = int(known.firsts[n_known])
    n_bytes = int(known.starts[n_forms])
    firsts = n_forms + np.cumsum(list(map(len, made)), dtype=np.int64)
    starts = n_bytes + np.cumsum(list(map(len, forms)), dtype=np.int64)
    data = np.frombuffer(b"".join(forms), np.uint8)
    parts = (known.firsts, n_known + 1, firsts), (known.starts, n_forms + 1, starts), (known.data, n_bytes, data)
    return FormsLayout(*(_put(array, at, more) for array, at, more in parts))


def _put(array: Any, at: int, more: Any) -> Any:
    """The array with these values from `at` on: itself, if it has room, else a copy of twice the length."""
    if at + more.size > array.size:
        array = np.concatenate([array[:at], np.zeros(at + 2 * more.size, array.dtype)])
    array[at : at + more.size] = more
    return array


def _written(forms: FormsLayout, numbers: Numbers, rows: Starts) -> Words:
    n_forms, n_bytes = measure_forms(forms, numbers)
    out = Words(np.empty(n_bytes, np.uint8), np.zeros(n_forms + 1, np.int64), np.zeros(rows.size, np.int64))
    write_forms(forms, numbers, rows, out)
    return out


class Analysis:
    """An analyzer at work on columns.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from nearcast.text.words import tokenise
    >>> words, surfaces = Analysis(Analyzer(stemmer="english")).texts(tokenise(pa.array(["burning fires"])))
    >>> words.data.tobytes(), surfaces.data.tobytes()
    (b'burnfire', b'burningfires')
    """

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        stems = analyzer.stemmer is not None
        self._texts = _Table(analyzer.forms_of, stems)
        self._items = _Table(self._forms_of_item, stems)

    def texts(self, words: Words) -> tuple[Words, Words]:
        """The words of texts that were folded and cut; and what they were before they were stemmed."""
        return (words, words) if self.analyzer.is_plain else self._texts.look_up(words)

    def items(self, words: Words) -> tuple[Words, Words]:
        """The items of lists that were folded, likewise."""
        return (words, words) if self.analyzer.is_plain else self._items.look_up(words)

    def _forms_of_item(self, key: str) -> list[Form]:
        form = self.analyzer.item(key[1:] if key[:1] == PLAIN else key)
        return [Form(set_apart(form.word), set_apart(form.surface))]
