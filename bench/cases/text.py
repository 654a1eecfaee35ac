"""Texts to terms: the columnar path, with an analyzer or without, and a plain Python loop to compare it with."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from itertools import pairwise

import pyarrow as pa

from bench.cases.messages import Stream
from bench.figure import Case, Counts, Stopwatch, WrongAnswer
from bench.judge import bag_of
from nearcast.columns.tokens import encode
from nearcast.model.analyzer import PLAIN_RULE, Analyzer
from nearcast.model.words import words_of
from nearcast.text.vocabulary import Terms, Vocabulary
from nearcast.text.words import tokenise

_ANALYZERS = {"plain": PLAIN_RULE, "all": Analyzer("english", "english", "fold", "bigrams")}

Row = list[tuple[str, int]]  # distinct words of a text in the order of their UTF-8 bytes, and their counts


class Texts(Case):
    """Texts in batches of `batch`; `rows` of them a repetition. The vocabulary is kept, as a broker keeps it."""

    unit = "texts"

    def prepare(self) -> None:
        stream = Stream(self.sizes["messages"], self.seed)
        self.source = stream.source
        column = stream.take(self.sizes["rows"])["text"].combine_chunks()
        self.n_rows = len(column)
        self.sample = column.slice(0, self.sizes["checked"])
        self.batches = [column.slice(at, self.sizes["batch"]) for at in range(0, len(column), self.sizes["batch"])]

    def check(self) -> int:
        rows = self.rows(self.sample)
        for text, row in zip(self.sample.to_pylist(), rows, strict=True):
            expected = sorted(self.bag(text).items(), key=lambda pair: pair[0].encode())
            if row != expected:
                raise WrongAnswer(f"{text!r}: {row}, but right is {expected}")
        return len(rows)

    def bag(self, text: str) -> Counter[str]:
        """The words of a text, by the rule of one text."""
        return Counter(bag_of(text))

    @abstractmethod
    def rows(self, column: pa.Array) -> list[Row]:
        """What the case makes of each text."""


class Encode(Texts):
    """`tokenise` and `Vocabulary.encode`."""

    def prepare(self) -> None:
        super().prepare()
        self.vocabulary = Vocabulary()
        self.n_entries = 0

    def rows(self, column: pa.Array) -> list[Row]:
        return self.spelled(self.vocabulary.encode(tokenise(column)))

    def spelled(self, terms: Terms) -> list[Row]:
        """The words of terms."""
        starts, words = terms.row_start.tolist(), [self.vocabulary.word(term) for term in terms.terms.tolist()]
        pairs = list(zip(words, terms.counts.tolist(), strict=True))
        return [pairs[lo:hi] for lo, hi in pairwise(starts)]

    def repeat(self, watch: Stopwatch) -> int:
        with watch:
            for batch in self.batches:
                self.n_entries += self.vocabulary.encode(tokenise(batch)).terms.size
        return self.n_rows

    def counts(self) -> Counts:
        return {"entries": self.n_entries, "words": len(self.vocabulary), "vocabulary_bytes": self.vocabulary.nbytes}


class Analyse(Encode):
    """What a broker does with texts: their words by the `analyzer`, "plain" or "all", as terms, and in their order."""

    def prepare(self) -> None:
        super().prepare()
        self.vocabulary = Vocabulary(analyzer=_ANALYZERS[self.sizes["analyzer"]])

    def bag(self, text: str) -> Counter[str]:
        return Counter(self.vocabulary.analysis.analyzer.words(text))

    def rows(self, column: pa.Array) -> list[Row]:
        return self.spelled(encode(column, None, self.vocabulary)[0])

    def repeat(self, watch: Stopwatch) -> int:
        with watch:
            for batch in self.batches:
                self.n_entries += encode(batch, None, self.vocabulary)[0].terms.size
        return self.n_rows


class PythonLoop(Texts):
    """The same with `words_of`, a dictionary and a sort, text by text."""

    def prepare(self) -> None:
        super().prepare()
        self.numbers: dict[str, int] = {}
        self.n_entries = 0

    def rows(self, column: pa.Array) -> list[Row]:
        bags = [Counter(words_of(text)) for text in column.to_pylist()]
        return [sorted(bag.items(), key=lambda pair: pair[0].encode()) for bag in bags]

    def repeat(self, watch: Stopwatch) -> int:
        numbers = self.numbers
        with watch:
            for batch in self.batches:
                for row in self.rows(batch):
                    self.n_entries += len([(numbers.setdefault(word, len(numbers)), count) for word, count in row])
        return self.n_rows

    def counts(self) -> Counts:
        return {"entries": self.n_entries, "words": len(self.numbers)}
