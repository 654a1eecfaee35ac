"""What texts and expressions mean, in plain Python: a part of the definitions, which share no code with the package.

Words, the multiset of a text, weights over a corpus, and what an expression says of a message.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from places import Refused

from nearcast.model.analyzer import PLAIN_RULE, Analyzer
from nearcast.model.stop_words import STOP_WORDS

Corpus = Sequence[str | Sequence[str]]
Content = str | Iterable[str]  # of a message: its text, or a list of keywords
Predicate = Callable[[Content], bool]


def fold(word: str) -> str:
    """Unicode NFKC, then case-folded, and both again until nothing changes."""
    folded = unicodedata.normalize("NFKC", word).casefold()
    return folded if folded == word else fold(folded)


def words_of(text: str) -> list[str]:
    """Folded, then split on everything that is neither a letter nor a digit."""
    return "".join(c if unicodedata.category(c)[0] in "LN" else " " for c in fold(text)).split()


class Form(NamedTuple):
    """A word as it is compared, and what it was before it was stemmed."""

    word: str
    surface: str


@functools.cache
def stem(language: str | None, word: str) -> str:
    """By the stemmer in plain Python; Nearcast takes the one in C."""
    if language is None:
        return word
    plain = importlib.import_module(f"snowballstemmer.{language}_stemmer")
    return str(getattr(plain, f"{language.title()}Stemmer")().stemWord(word))


def without_accents(word: str) -> str:
    """Without the combining diacritical marks of Unicode's first block of them."""
    letters = unicodedata.normalize("NFD", word)
    return fold("".join(letter for letter in letters if not 0x300 <= ord(letter) <= 0x36F)) or word


def is_sign(character: str) -> bool:
    """Han, Kana or Hangul."""
    name = unicodedata.name(character, "")
    return name.startswith(("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "IDEOGRAPHIC ITERATION", "IDEOGRAPHIC NUMBER"))


def pairs(word: str) -> Iterable[str]:
    """A word cut into runs of signs and of other characters; the former as overlapping pairs."""
    for signs, run in itertools.groupby(word, is_sign):
        text = "".join(run)
        yield from (text[i : i + 2] for i in range(len(text) - 1)) if signs and len(text) > 1 else (text,)


class Rule:
    """What an analyzer makes of texts and of items of lists."""

    def __init__(self, analyzer: Analyzer = PLAIN_RULE) -> None:
        self.given = analyzer
        stop_words = STOP_WORDS[analyzer.stop_words].split() if analyzer.stop_words else []
        self.stop_words = {self.plain(fold(word)) for word in stop_words}

    def plain(self, word: str) -> str:
        return without_accents(word) if self.given.accents == "fold" else word

    def pieces(self, word: str) -> list[str]:
        return list(pairs(self.plain(word))) if self.given.cjk == "bigrams" else [self.plain(word)]

    def forms(self, content: str | Iterable[str]) -> list[Form]:
        """The words of a text in their order; or the items of a list, of which only single words are stemmed."""
        if isinstance(content, str):
            found = [piece for word in words_of(content) for piece in self.pieces(word)]
            return [Form(stem(self.given.stemmer, word), word) for word in found if word not in self.stop_words]
        items = [self.plain(fold(item)) for item in content if item]
        return [Form(stem(self.given.stemmer, item) if words_of(item) == [item] else item, item) for item in items]


PLAIN = Rule()


def bag_of(text: str | Iterable[str], rule: Rule = PLAIN) -> Counter[str]:
    """The multiset of words of a text, or of a list of keywords (folded, never split)."""
    return Counter(form.word for form in rule.forms(text))


class Weights:
    """idf over a corpus; without one every word weighs 1."""

    def __init__(self, corpus: Corpus, rule: Rule = PLAIN) -> None:
        self.n_texts = len(corpus)
        self.df = Counter(word for text in corpus for word in bag_of(text, rule))

    def __call__(self, word: str) -> float:
        return math.log(1 + self.n_texts / (self.df[word] or 1)) if self.n_texts else 1.0

    def total(self, words: Iterable[str]) -> float:
        return math.fsum(self(word) for word in words)


class Atom(NamedTuple):
    """What an expression is made of: a word, a prefix that some word must have, or words that stand side by side."""

    kind: str  # "word", "prefix" or "phrase"
    words: tuple[str, ...]

    def holds(self, content: Content, rule: Rule) -> bool:
        """Does it hold for a text, or for a list of keywords, whose words have no order?"""
        forms = rule.forms(content)
        if self.kind == "prefix":
            return any(form.surface.startswith(self.words[0]) for form in forms)
        words, n = [form.word for form in forms], len(self.words)
        if n > 1 and not isinstance(content, str):
            return False
        return any(tuple(words[i : i + n]) == self.words for i in range(len(words)))


QUOTES = '"\u201c\u201d'


def atoms_of(token: str, rule: Rule) -> list[Atom]:
    """What an operand asks for, all of it."""
    if "~" in token:
        raise Refused("a fuzzy word")
    if token[0] in QUOTES:
        if len(token) == 1 or token[-1] not in QUOTES:
            raise Refused("a quote is not closed")
        if "*" in token:
            raise Refused("a star in a phrase")
        words = [form.word for form in rule.forms(token)]
        return [Atom("phrase" if len(words) > 1 else "word", tuple(words))] if words else []
    body, star, rest = token.partition("*")
    if not star:
        return [Atom("word", (form.word,)) for form in rule.forms(body)]
    words = words_of(body)
    if rest or not words or unicodedata.category(fold(body)[-1])[0] not in "LN" or len(words[-1]) < 2:
        raise Refused("a star that follows no two letters")
    *before, last = rule.pieces(words[-1])
    whole = [form.word for form in rule.forms(" ".join(words[:-1]))] + before
    return [*(Atom("word", (word,)) for word in whole), Atom("prefix", (last,))]


def expression(text: str, rule: Rule = PLAIN) -> Predicate:
    """What an expression says of a text or a list of keywords; `Refused` if it is malformed."""
    tokens = re.findall(f"[()]|[{QUOTES}][^{QUOTES}]*[{QUOTES}]?|[^\\s(){QUOTES}]+", text)
    mentioned: set[Atom] = set()
    Part = Callable[[Callable[[Atom], bool]], bool]

    def peek() -> str | None:
        return tokens[0] if tokens else None

    def either() -> Part:
        sides = [both()]
        while peek() == "OR":
            tokens.pop(0)
            sides.append(both())
        return lambda true: any(side(true) for side in sides)

    def both() -> Part:
        sides = [negated()]
        while peek() not in (None, "OR", ")"):
            if peek() == "AND":
                tokens.pop(0)
            sides.append(negated())
        return lambda true: all(side(true) for side in sides)

    def negated() -> Part:
        if peek() != "NOT":
            return operand()
        tokens.pop(0)
        inner = negated()
        return lambda true: not inner(true)

    def operand() -> Part:
        token = tokens.pop(0) if tokens else None
        if token == "(":
            inner = either()
            if not tokens or tokens.pop(0) != ")":
                raise Refused("a parenthesis is not closed")
            return inner
        if token in (None, ")", "AND", "OR"):
            raise Refused("an operand is missing")
        needed = atoms_of(str(token), rule)
        if not needed:
            raise Refused("an operand has no words")
        mentioned.update(needed)
        return lambda true: all(map(true, needed))

    holds = either()
    if tokens:
        raise Refused("something follows the expression")
    # A clause of the normal form without a positive word is one that a message without words satisfies, and no clause
    # is left when nothing at all satisfies the expression, words, phrases and prefixes being true each for itself.
    if holds(lambda _: False):
        raise Refused("a clause has no positive word")
    if not any(holds(some.__contains__) for n in range(1, len(mentioned) + 1) for some in combinations(mentioned, n)):
        raise Refused("nothing satisfies the expression")
    return lambda content: holds(lambda atom: atom.holds(content, rule))


def requirement(keywords: str | Sequence[str], rule: Rule = PLAIN) -> Predicate:
    """The keywords of a Within: an expression, or a list of which all are needed."""
    if isinstance(keywords, str):
        return expression(keywords, rule)
    needed = [Atom("word", (word,)) for word in bag_of(keywords, rule)]
    if not needed:
        raise Refused("no keywords")
    return lambda content: all(atom.holds(content, rule) for atom in needed)
