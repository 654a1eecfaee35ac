"""How texts become words beyond the plain rule: stop words, stems, accents, and pairs of Chinese and Japanese signs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, NamedTuple
from unicodedata import normalize

from nearcast.errors import InvalidInput
from nearcast.model.checks import is_a, one_of
from nearcast.model.stop_words import STOP_WORDS
from nearcast.model.words import fold, words_of

ACCENTS, CJK = ("keep", "fold"), ("whole", "bigrams")
_MARKS = re.compile("[\u0300-\u036f]")  # the accents of Latin, Greek and Cyrillic letters, taken off their letters
_SIGNS = (
    "\u1100-\u11ff\u3005\u3007\u3041-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f"
    "\uac00-\ud7ff\uf900-\ufaff\U00020000-\U000323af"
)
_RUNS = re.compile(f"[{_SIGNS}]+|[^{_SIGNS}]+")
_SIGN = re.compile(f"[{_SIGNS}]")


class Form(NamedTuple):
    """A word as it is compared, and as it was before it was stemmed: prefixes look at that."""

    word: str
    surface: str


@dataclass(frozen=True, slots=True)
class Analyzer:
    """What becomes of the words of texts and queries, after they are folded and cut.

    Parameters
    ----------
    stop_words
        A language whose commonest words are left out: one of those in `STOP_WORDS`. None leaves none out.
    stemmer
        A language whose words are cut to their stems by its Snowball stemmer. None leaves them whole.
    accents
        ``"fold"`` takes the accents off Latin, Greek and Cyrillic letters; ``"keep"`` leaves them.
    cjk
        ``"bigrams"`` makes overlapping pairs of every run of Han, Kana and Hangul; ``"whole"`` leaves runs whole.

    Raises
    ------
    InvalidInput
        For a language or a choice that there is not.

    Examples
    --------
    >>> Analyzer(stop_words="english", stemmer="english", accents="fold", cjk="bigrams").words("The Cafés of 東京都!")
    ['cafe', '東京', '京都']
    """

    stop_words: str | None = None
    stemmer: str | None = None
    accents: str = "keep"
    cjk: str = "whole"

    def __post_init__(self) -> None:
        if self.stop_words is not None:
            object.__setattr__(self, "stop_words", one_of("stop_words", self.stop_words, tuple(STOP_WORDS)))
        if self.stemmer is not None:
            object.__setattr__(self, "stemmer", one_of("stemmer", self.stemmer, _languages()))
        object.__setattr__(self, "accents", one_of("accents", self.accents, ACCENTS))
        object.__setattr__(self, "cjk", one_of("cjk", self.cjk, CJK))

    @property
    def is_plain(self) -> bool:
        """Is it the plain rule?"""
        return self == PLAIN_RULE

    def words(self, text: str) -> list[str]:
        """The words of a text in their order, repeats included."""
        return [form.word for form in self.forms(text)]

    def forms(self, text: str) -> list[Form]:
        """The words of a text in their order, and what each was before it was stemmed."""
        return [form for word in words_of(text) for form in self.forms_of(word)]

    def forms_of(self, word: str) -> list[Form]:
        """What becomes of one word that was folded and cut."""
        found = (piece for piece in self.pieces(word) if piece not in _stop_words(self.stop_words, self.accents))
        return [Form(self._stem(piece), piece) for piece in found]

    def pieces(self, word: str) -> list[str]:
        """A word without accents, if so asked, and cut where runs of signs begin, end and make pairs."""
        word = self._plain(word)
        if self.cjk == "whole" or not _SIGN.search(word):
            return [word]
        pieces = []
        for run in _RUNS.findall(word):
            is_pairs = len(run) > 1 and _SIGN.match(run)
            pieces += [run[i : i + 2] for i in range(len(run) - 1)] if is_pairs else [run]
        return pieces

    def items(self, keywords: Iterable[str]) -> list[str]:
        """The words of a keywords list, empty strings dropped."""
        return [self.item(item).word for item in keywords if item]

    def item(self, item: str) -> Form:
        """An item of a list: folded, and stemmed if it is one word; never cut, and never left out."""
        folded = self._plain(fold(item))
        return Form(self._stem(folded) if words_of(folded) == [folded] else folded, folded)

    def _plain(self, word: str) -> str:
        if self.accents == "keep" or word.isascii():
            return word
        return fold(_MARKS.sub("", normalize("NFD", word))) or word  # an item of a list may be an accent alone

    def _stem(self, word: str) -> str:
        return word if self.stemmer is None else _stemmer(self.stemmer).stemWord(word) or word

    def state(self) -> dict[str, str | None]:
        """All there is to keep."""
        return asdict(self)


PLAIN_RULE = Analyzer()


def as_analyzer(value: Any) -> Analyzer:
    """The analyzer given, the plain rule for None."""
    if value is None:
        return PLAIN_RULE
    if not is_a(value, Analyzer):
        raise InvalidInput("analyzer", value, "must be an Analyzer or None")
    return Analyzer(value.stop_words, value.stemmer, value.accents, value.cjk)


@cache
def _stop_words(language: str | None, accents: str) -> frozenset[str]:
    plain = Analyzer(accents=accents)
    return frozenset(plain.words(STOP_WORDS[language])) if language is not None else frozenset()


@cache
def _languages() -> tuple[str, ...]:
    import Stemmer

    return tuple(sorted(Stemmer.algorithms()))


@cache
def _stemmer(language: str) -> Any:
    """It has a buffer of its own, which threads do not mix up: a call holds the interpreter until it is done."""
    import Stemmer

    return Stemmer.Stemmer(language, 0)  # no cache, which costs more than a word
