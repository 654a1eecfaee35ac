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

_MOST_KEPT = 1 << 20  # words in a table, before it starts over


class FormsLayout(NamedTuple):
    """What becomes of words, by their numbers in a table."""

    firsts: Starts  # int64[n_words + 1]: word i becomes the forms firsts[i]:firsts[i + 1]
    starts: Starts  # int64[n_forms + 1]: where the bytes of each form start
    data: Bytes  # uint8[]


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
        self._words = self._surfaces = FormsLayout(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(0, np.uint8))

    def look_up(self, words: Words) -> tuple[Words, Words]:
        """The forms of words, and their surfaces; the same object if these are the same."""
        if len(self._keys) > _MOST_KEPT:
            self._start_over()
        numbers = self._keys.add_many(words.data, words.word_start)
        n_known = self._words.firsts.size - 1
        if self._keys.capacity > n_known:
            self._learn(np.arange(n_known, self._keys.capacity, dtype=np.int32))
        made = _written(self._words, numbers, words.row_start)
        return made, _written(self._surfaces, numbers, words.row_start) if self._with_surfaces else made

    def _learn(self, numbers: Numbers) -> None:
        data, starts = self._keys.take(numbers)
        text = data.tobytes()
        made = [self._make(text[lo:hi].decode()) for lo, hi in pairwise(starts.tolist())]
        self._words = _longer(self._words, made, [form.word.encode() for forms in made for form in forms])
        if self._with_surfaces:
            found = [form.surface.encode() for forms in made for form in forms]
            self._surfaces = _longer(self._surfaces, made, found)


def _longer(known: FormsLayout, made: list[list[Form]], forms: list[bytes]) -> FormsLayout:
    """What is known, and the forms of further words."""
    firsts = known.firsts[-1] + np.cumsum(list(map(len, made)), dtype=np.int64)
    starts = known.starts[-1] + np.cumsum(list(map(len, forms)), dtype=np.int64)
    data = np.frombuffer(b"".join(forms), np.uint8)
    return FormsLayout(np.append(known.firsts, firsts), np.append(known.starts, starts), np.append(known.data, data))


def _written(forms: FormsLayout, numbers: Numbers, rows: Starts) -> Words:
    n_forms = np.diff(forms.firsts)
    n_bytes = forms.starts[forms.firsts[1:]] - forms.starts[forms.firsts[:-1]]
    sizes = int(n_bytes[numbers].sum()), int(n_forms[numbers].sum())
    out = Words(np.empty(sizes[0], np.uint8), np.zeros(sizes[1] + 1, np.int64), np.zeros(rows.size, np.int64))
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
