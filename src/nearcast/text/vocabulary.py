"""Numbers words: each word is a term, each row its distinct terms and counts in the order of the words' bytes.

Numbers differ from one shard to another; the order of the words' UTF-8 bytes does not. Sums over a row are taken in
that order, so that every shard and every replay gets the same sum to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from nearcast.held import HeldCall, opened
from nearcast.jit import kernel
from nearcast.model.analyzer import PLAIN_RULE, Analyzer
from nearcast.text.analysis import Analysis
from nearcast.text.key_kernels import UNKNOWN, KeysLayout, Numbers, find_one
from nearcast.text.key_table import Keys, State
from nearcast.text.patterns import Patterns
from nearcast.text.strings import Bytes, Starts, Whole
from nearcast.text.weights import CorpusLayout, Weights
from nearcast.text.words import Words

_HEAD = 7  # bytes of a word that fit into a non-negative int64


class Terms(NamedTuple):
    """Rows of distinct terms, each row in the order of its words' UTF-8 bytes."""

    row_start: Starts  # int64[n_rows + 1]: row r owns entries row_start[r]:row_start[r + 1]
    terms: Numbers  # int32[n_entries]
    counts: Numbers  # int32[n_entries]: how often the row has the word


@kernel
def comes_before(layout: KeysLayout, head_a: Whole, a: Whole, head_b: Whole, b: Whole) -> bool:
    """Whether the word of term a sorts before that of term b, by UTF-8 bytes; heads are their first bytes."""
    if head_a != head_b:
        return bool(head_a < head_b)
    if a == b:
        return False
    one, two = layout.entries[a], layout.entries[b]
    for i in range(min(_HEAD, one["length"], two["length"]), min(one["length"], two["length"])):
        byte_a, byte_b = layout.arena[one["start"] + i], layout.arena[two["start"] + i]
        if byte_a != byte_b:
            return bool(byte_a < byte_b)
    return bool(one["length"] < two["length"])


@kernel
def sort_row(layout: KeysLayout, heads: Starts, terms: Numbers, lo: Whole, hi: Whole) -> None:
    """Sort terms[lo:hi], and heads with them, by the bytes of their words; a shell sort, since rows are short."""
    gap = 1
    while gap < (hi - lo) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(lo + gap, hi):
            head, term = heads[i], terms[i]
            j = i
            while j >= lo + gap and comes_before(layout, head, term, heads[j - gap], terms[j - gap]):
                heads[j], terms[j] = heads[j - gap], terms[j - gap]
                j -= gap
            heads[j], terms[j] = head, term
        gap //= 3


@kernel
def head_of(words: Words, word: Whole) -> Whole:
    """The first bytes of a word, as a number that sorts like them."""
    head, start, end = np.int64(0), words.word_start[word], words.word_start[word + 1]
    for i in range(start, start + _HEAD):
        head = head << 8
        if i < end:
            head |= np.int64(words.data[i])
    return head


@kernel
def encode_many(layout: KeysLayout, words: Words, heads: Starts, out: Terms) -> int:
    """Turn out.terms, the term of every word in turn, into sorted rows of distinct terms; return their total."""
    n = 0
    for word in range(heads.size):
        heads[word] = head_of(words, word)
    for row in range(words.row_start.size - 1):
        lo, hi = words.row_start[row], words.row_start[row + 1]
        sort_row(layout, heads, out.terms, lo, hi)
        for i in range(lo, hi):
            if i > lo and out.terms[i] == out.terms[n - 1]:
                out.counts[n - 1] += 1
            else:
                out.terms[n] = out.terms[i]
                out.counts[n] = 1
                n += 1
        out.row_start[row + 1] = n
    return n


class WeighCall(NamedTuple):
    """The words of a text, and the corpus that they are weighed by."""

    keys: KeysLayout
    corpus: CorpusLayout
    terms: Numbers
    idf: npt.NDArray[np.float64]


@kernel
def weigh_words(held: Any, n: int, unknown: float) -> None:
    """Give the first `n` terms of a `Held` call their weights, where they have none yet."""
    call = opened(held)
    keys, corpus, idf = call.keys, call.corpus, call.idf
    for i in range(n):
        term = call.terms[i]
        if np.isnan(idf[term]):
            entry = keys.entries[term]
            known = find_one(corpus.keys, keys.arena, entry["start"], entry["start"] + entry["length"])
            idf[term] = unknown if known == UNKNOWN else corpus.idf[known]


class Vocabulary:
    """Words, their terms and their weights.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from nearcast.text.words import tokenise
    >>> vocabulary = Vocabulary()
    >>> rows = vocabulary.encode(tokenise(pa.array(["to be or not to be"])))
    >>> [vocabulary.word(term) for term in rows.terms], rows.counts.tolist()
    (['be', 'not', 'or', 'to'], [2, 1, 1, 2])
    """

    def __init__(self, weights: Weights | None = None, analyzer: Analyzer = PLAIN_RULE) -> None:
        self.weights = Weights() if weights is None else weights
        self.analysis = Analysis(analyzer)
        self.keys = Keys()
        self.patterns = Patterns(self.keys, self.enter)
        self._idf: npt.NDArray[np.float64] = np.zeros(0)  # NaN: not a word now
        self._shown, self._shown_of = self._idf, self._idf  # the part of it that has terms, the same until it changes
        self._weigh_words: HeldCall[WeighCall] = HeldCall(weigh_words)
        self._new: list[Numbers] | None = None  # terms given out since a `trial` began

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def idf(self) -> npt.NDArray[np.float64]:
        """float64[capacity]: the weight of every term; ask again after every `encode`."""
        capacity = self.keys.capacity
        if self._shown_of is not self._idf or self._shown.size != capacity:
            self._shown, self._shown_of = self._idf[:capacity], self._idf
        return self._shown

    @property
    def capacity(self) -> int:
        """One past the largest term ever given."""
        return self.keys.capacity

    @property
    def nbytes(self) -> int:
        """Bytes of memory held, those of the weights included."""
        return self.keys.nbytes + self._idf.nbytes + self.weights.nbytes + self.patterns.nbytes

    def encode(self, words: Words) -> Terms:
        """The distinct terms of every row and how often it has them, by the words' bytes; new words get terms."""
        return self._sorted(words, self.enter(words.data, words.word_start))

    def encode_in_order(self, words: Words) -> tuple[Terms, Numbers]:
        """What `encode` gives, and the terms of all words in their order."""
        in_order = self.enter(words.data, words.word_start)
        return self._sorted(words, in_order.copy()), in_order

    def _sorted(self, words: Words, terms: Numbers) -> Terms:
        out = Terms(np.zeros(len(words.row_start), np.int64), terms, np.empty(len(terms), np.int32))
        n = encode_many(self.keys.layout, words, np.empty(len(terms), np.int64), out)
        return Terms(out.row_start, out.terms[:n], out.counts[:n])

    def enter(self, data: Bytes, starts: Starts) -> Numbers:
        """The terms of words, given as bytes and starts; new ones get terms."""
        terms = self.keys.add_many(data, starts)
        self.weigh_new(terms)
        return terms

    def word(self, term: int) -> str:
        """The word of a term, or the key of a pattern."""
        return self.keys.take(np.array([term], np.int32))[0].tobytes().decode()

    def free(self, terms: Numbers) -> None:
        """Free words that nothing holds; their terms may be given to other words."""
        self.keys.free_many(terms)
        self._idf[terms] = np.nan
        self.patterns.freed(terms)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """What is entered meanwhile is freed again at the end; nothing may hold it then."""
        self._new = []
        try:
            yield
        finally:
            new, self._new = self._new, None
            if new:
                self.free(np.concatenate(new))

    def set_weights(self, weights: Weights) -> None:
        """Replace the weights of all words."""
        self.weights = weights
        live = self.keys.numbers()
        self._idf[live] = weights.weights_of(*self.keys.take(live))

    def state(self) -> State:
        """All there is to keep, the weights included."""
        named = {"keys": self.keys.state(), "weights": self.weights.state()}
        return {"idf": self.idf} | {f"{part}.{name}": v for part, state in named.items() for name, v in state.items()}

    def load(self, state: Mapping[str, Any]) -> Self:
        """Become what `state` describes; its arrays are taken over, not copied."""
        self.keys.load({name[5:]: value for name, value in state.items() if name.startswith("keys.")})
        self.weights = Weights().load({name[8:]: v for name, v in state.items() if name.startswith("weights.")})
        self.weights.analyzer = self.analysis.analyzer
        self._idf = np.asarray(state["idf"])
        self.patterns.load()
        return self

    def weigh_text(self, terms: Numbers, n: int) -> None:
        """Give the first of these terms, the words of a text, their weights."""
        if len(self.patterns) or self._new is not None:
            self.weigh_new(terms[:n])
            return
        self._make_room()
        weights = self.weights
        self._weigh_words(WeighCall(self.keys.layout, weights.layout, terms, self._idf), n, weights.unknown)

    def _make_room(self) -> None:
        if self.keys.capacity > len(self._idf):
            more = np.full(2 * self.keys.capacity - len(self._idf), np.nan)
            self._idf = np.append(self._idf, more)

    def weigh_new(self, terms: Numbers) -> None:
        """Give the terms that have no weight yet theirs."""
        self._make_room()
        new = terms[np.isnan(self._idf[terms])]
        if new.size:
            place = np.arange(len(new))
            self._idf[new] = place  # of equal terms one remains: each is weighed once, without a sort
            new = new[self._idf[new] == place]
            data, starts = self.keys.take(new)
            self._idf[new] = self.weights.weights_of(data, starts)
            self.patterns.added(new, data, starts)
            if self._new is not None:
                self._new.append(new)
