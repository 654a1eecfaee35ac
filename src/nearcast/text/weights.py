"""Computes the weight of every word over a corpus of texts: ln(1 + N / df), fixed from then on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.errors import InvalidInput, shown
from nearcast.held import unchanged
from nearcast.jit import kernel
from nearcast.model.analyzer import PLAIN_RULE, Analyzer, as_analyzer
from nearcast.model.checks import is_a, refusal, string
from nearcast.model.frames import ArrowStream, batches_of
from nearcast.model.words import set_apart
from nearcast.text.analysis import Analysis
from nearcast.text.key_kernels import KeysLayout, Numbers
from nearcast.text.key_table import Keys, State
from nearcast.text.strings import Bytes, Starts, arrow_bytes
from nearcast.text.words import Words, from_lists, tokenise

ROWS = 65_536  # texts counted at a time


@kernel
def count_rows(terms: Numbers, row_start: Starts, first: int, last_row: Starts, n_rows: Starts) -> None:
    """Add 1 to n_rows[t] for every row that has term t, however often; rows are numbered from `first` on."""
    for row in range(row_start.size - 1):
        for i in range(row_start[row], row_start[row + 1]):
            term = terms[i]
            if last_row[term] != first + row:
                last_row[term] = first + row
                n_rows[term] += 1


class CorpusLayout(NamedTuple):
    """The words of a corpus and their weights, for kernels."""

    keys: KeysLayout
    idf: npt.NDArray[np.float64]  # float64[n_words]: by number in `keys`


class Weights:
    """How much each word counts. `Weights()` has seen no text: every word weighs 1.

    Examples
    --------
    >>> weights = Weights.fit(["Ramen today", "ramen, ramen!", ["sushi"]])
    >>> weights.n_texts, round(weights.weight("ramen"), 4), round(weights.weight("pizza"), 4)
    (3, 0.9163, 1.3863)
    >>> Weights().weight("ramen")
    1.0
    """

    def __init__(self) -> None:
        self.n_texts = 0
        self.analyzer = PLAIN_RULE  # that the texts went through
        self._keys = Keys()
        self._df: Starts = np.zeros(0, np.int64)  # texts that have the word, by its number in _keys
        self._idf: npt.NDArray[np.float64] = np.zeros(0)
        self._layout: CorpusLayout | None = None
        self.unknown = 1.0  # the weight of a word that no text had

    @classmethod
    def none(cls) -> Self:
        """The weights of no corpus: 1 for every word."""
        return cls()

    @classmethod
    def fit(
        cls,
        texts: Iterable[str | Sequence[str] | None] | pa.Array | pa.ChunkedArray | ArrowStream,
        analyzer: Analyzer | None = None,
    ) -> Self:
        """Weights over a corpus: texts, lists of keywords, or an Arrow column of either; nulls are not texts.

        Of an Arrow table, a data frame or a stream it is the column `text`, and `keywords` where that is null; or the
        only column. The analyzer must be the one of the broker that takes the weights.

        Raises
        ------
        InvalidInput
            A single string, something that is neither a text nor a list of keywords, or a table without them.
        """
        batches = iter([texts]) if is_a(texts, pa.Table | pa.RecordBatch) else batches_of("texts", texts)
        weights = cls()
        weights.analyzer = as_analyzer(analyzer)
        counts = _Counts(weights._keys, Analysis(weights.analyzer))
        if batches is None:
            counts.add_all(texts)
        for batch in batches or ():
            for texts in _corpus(batch):
                counts.add_all(texts)
        weights._set(counts.n_texts, counts.n_rows[: weights._keys.capacity])
        return weights

    @classmethod
    def of_counts(cls, n_texts: int, words: pa.Array, counts: Starts, analyzer: Analyzer | None = None) -> Self:
        """Weights over texts that were counted elsewhere: distinct words and how many texts have each.

        Words are folded, or what the analyzer made of them.
        """
        weights = cls()
        weights.analyzer = as_analyzer(analyzer)
        weights._keys.add_many(*arrow_bytes(words))
        weights._set(n_texts, counts.astype(np.int64))
        return weights

    def counts(self) -> tuple[pa.Array, Starts]:
        """All words of the corpus, and in how many texts each was."""
        return self._keys.to_arrow_strings(self._keys.numbers()), self._df[self._keys.numbers()]

    def weight(self, word: str) -> float:
        """The weight of one word, folded and, if so analysed, stemmed first."""
        form = self.analyzer.item(string("word", word))
        return float(self.weights_of(*arrow_bytes(pa.array([set_apart(form.word)])))[0])

    def weights_of(self, data: Bytes, starts: Starts) -> npt.NDArray[np.float64]:
        """The weight of each word, given as folded UTF-8 in bulk: word i is data[starts[i]:starts[i + 1]]."""
        if self.n_texts == 0:
            return np.ones(len(starts) - 1)
        numbers = self._keys.find_many(data, starts)
        out = np.full(len(numbers), self.unknown)
        out[numbers >= 0] = self._idf[numbers[numbers >= 0]]
        return out

    @property
    def layout(self) -> CorpusLayout:
        """What kernels weigh words with."""
        layout = self._layout = unchanged(self._layout, CorpusLayout, self._keys.layout, self._idf)
        return layout

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return self._keys.nbytes + self._df.nbytes + self._idf.nbytes

    def state(self) -> State:
        """All there is to keep, as arrays and one integer."""
        return {"n_texts": self.n_texts, "df": self._df} | {f"keys.{k}": v for k, v in self._keys.state().items()}

    def load(self, state: Mapping[str, Any]) -> Self:
        """Become what `state` describes; its arrays are taken over, not copied."""
        self._keys.load({name[5:]: value for name, value in state.items() if name.startswith("keys.")})
        self._set(int(state["n_texts"]), np.asarray(state["df"]))
        return self

    def _set(self, n_texts: int, df: Starts) -> None:
        # math.log, once for each df: NumPy's own logarithm may differ in the last bit from one processor to another
        self.n_texts, self._df, self.unknown = n_texts, df, math.log(1.0 + n_texts) if n_texts else 1.0
        distinct, place = np.unique(df, return_inverse=True)
        self._idf = np.array([math.log(1.0 + n_texts / int(n)) for n in distinct], np.float64)[place]


def check_analyzer(weights: Weights, analyzer: Analyzer) -> None:
    """Refuse weights over a corpus whose words were made in another way."""
    if weights.n_texts and weights.analyzer != analyzer:
        raise InvalidInput("weights", weights.analyzer, f"must be fitted with the broker's analyzer, {analyzer}")


class _Counts:
    """Texts counted so far, and in how many of them each word was."""

    def __init__(self, keys: Keys, analysis: Analysis) -> None:
        self.n_texts = 0
        self._analysis = analysis
        self.n_rows: Starts = np.zeros(0, np.int64)
        self._last_row: Starts = np.zeros(0, np.int64)
        self._row = 1  # 0 is no row
        self._keys = keys

    def add_all(self, texts: Any) -> None:
        """Count texts and lists of keywords, or an Arrow column of either."""
        if is_a(texts, str | bytes | Mapping) or not is_a(texts, Iterable):
            raise InvalidInput("texts", texts, "must be many texts, not one")
        if is_a(texts, pa.Array | pa.ChunkedArray):
            texts = _plain(texts)
            for start in range(0, len(texts), ROWS):
                rows = texts[start : start + ROWS]
                self.add(self._words_of_column(rows), len(rows) - rows.null_count)
            return
        left = _iterator(texts)
        while batch := [_checked(text) for text in islice(left, ROWS)]:
            plain = [text for text in batch if isinstance(text, str)]
            lists = [text for text in batch if text is not None and not isinstance(text, str)]
            self.add(self._words_of_column(pa.array(plain, pa.large_string())), len(plain))
            self.add(self._words_of_column(pa.array(lists, pa.large_list(pa.large_string()))), len(lists))

    def _words_of_column(self, column: pa.Array | pa.ChunkedArray) -> Words:
        """The words of an Arrow column of strings or of lists of strings."""
        if _is_text(column.type):
            return self._analysis.texts(tokenise(column))[0]
        return self._analysis.items(from_lists(column))[0]

    def add(self, words: Words, n_texts: int) -> None:
        """Count the rows of `words`, `n_texts` of which are texts."""
        terms = self._keys.add_many(words.data, words.word_start)
        if self._keys.capacity > len(self.n_rows):
            more = np.zeros(2 * self._keys.capacity - len(self.n_rows), np.int64)
            self.n_rows, self._last_row = np.append(self.n_rows, more), np.append(self._last_row, more)
        count_rows(terms, words.row_start, self._row, self._last_row, self.n_rows)
        self._row += len(words.row_start) - 1
        self.n_texts += n_texts


def _corpus(batch: Any) -> Iterator[Any]:
    """The texts of a batch of rows, and the keywords of the rows that have no text."""
    if isinstance(batch, pa.ChunkedArray):
        yield batch
    elif isinstance(batch, list):
        yield [row.get("keywords") if row.get("text") is None else row["text"] for row in batch]
    else:
        has = batch.schema.get_field_index
        text, keywords = has("text"), has("keywords")
        if text < 0 and keywords < 0:
            if batch.num_columns != 1:
                raise InvalidInput("texts", batch.schema.names, "must have a column text or keywords, or one column")
            text = 0
        if text >= 0:
            yield batch.column(text)
        if keywords >= 0:
            lists = batch.column(keywords)
            yield lists if text < 0 else lists.filter(batch.column(text).is_null())


def _checked(text: Any) -> str | list[str] | None:
    """A text, a list of keywords or None; anything else is refused."""
    if text is None or is_a(text, str):
        return None if text is None else string("texts", text)
    if not is_a(text, Iterable) or is_a(text, bytes | Mapping):
        raise InvalidInput("texts", text, "must each be a text or a list of keywords")
    try:
        words = list(text)
    except Exception as error:
        raise refusal("texts", text, error, lambda: list(text)) from error
    if not all(is_a(word, str) for word in words):
        raise InvalidInput("texts", text, "must each be a text or a list of keywords")
    return [string("texts", word) for word in words]


def _iterator(texts: Iterable[Any]) -> Iterator[Any]:
    try:
        return iter(texts)
    except TypeError:  # an array without dimensions calls itself iterable
        raise InvalidInput("texts", texts, "must be many texts, not one") from None
    except Exception as error:
        raise refusal("texts", texts, error, lambda: iter(texts)) from error


def _plain(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """An Arrow column of texts or of keyword lists, strings or lists of strings whatever its encoding.

    Lists in views are taken apart in Python: Arrow's cast of them gives arrays that it calls invalid itself (26.0).
    """
    types, kind = pa.types, column.type
    if isinstance(kind, pa.BaseExtensionType):
        raise InvalidInput("texts", str(kind), "must be a column of strings or of lists of strings")
    try:
        column.validate(full=True)
        if types.is_list_view(kind) or types.is_large_list_view(kind):
            column, kind = pa.array(column.to_pylist(), pa.large_list(kind.value_type)), pa.large_list(kind.value_type)
        while types.is_run_end_encoded(kind) or types.is_dictionary(kind):
            column = pc.run_end_decode(column) if types.is_run_end_encoded(kind) else column.cast(kind.value_type)
            kind = column.type
        if types.is_null(kind) or _is_text(kind):
            return column.cast(pa.large_string()) if types.is_string_view(kind) or types.is_null(kind) else column
        is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        if is_list and (types.is_null(kind.value_type) or _is_text(_decoded(kind.value_type))):
            return column.cast(pa.large_list(pa.large_string()))
    except pa.ArrowException as error:
        raise InvalidInput("texts", str(kind), f"must be a column that can be read ({shown(error)})") from None
    raise InvalidInput("texts", str(kind), "must be a column of strings or of lists of strings")


def _decoded(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
