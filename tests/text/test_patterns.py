"""Which phrases and prefixes words hold, against a search word by word."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa

from nearcast.model.words import term_key, word_of_key
from nearcast.text.patterns import Patterns, find_patterns
from nearcast.text.vocabulary import Vocabulary
from nearcast.text.words import as_given

WORDS = ["a", "ab", "abc", "abd", "b", "é", "ére", "東京", "\x01ab"]


def enter(vocabulary: Vocabulary, words: list[str]) -> list[int]:
    keys = [term_key(word) for word in words]
    return vocabulary.encode_in_order(as_given(pa.array([keys], pa.list_(pa.string()))))[1].tolist()


def held(vocabulary: Vocabulary, words: list[str], ordered: bool = True) -> set[str]:
    """The patterns that a text of these words holds."""
    terms = np.array([7, *enter(vocabulary, words)], np.int32)  # none begins at 0
    dense, found = np.zeros(vocabulary.capacity), np.zeros(len(vocabulary.patterns), np.int32)
    if not len(vocabulary.patterns):
        return set()
    n = find_patterns(vocabulary.patterns.layout, terms, terms, 1, len(words) * (1 if ordered else -1), dense, found)
    assert np.array_equal(np.flatnonzero(dense), np.sort(found[:n]))
    return {word_of_key(vocabulary.word(int(term))) for term in found[:n]}


def expected(patterns: set[str], words: list[str], ordered: bool = True) -> set[str]:
    text = f" {' '.join(words)} "
    phrases = {p for p in patterns if p[0] == '"' and ordered and f" {p[1:-1]} " in text}
    return phrases | {p for p in patterns if p[-1] == "*" and any(word.startswith(p[:-1]) for word in words)}


def test_patterns_come_and_go() -> None:
    pick = random.Random(5)
    vocabulary, used = Vocabulary(), set[str]()
    for _ in range(400):
        words = pick.choices(WORDS, k=pick.randrange(8))
        assert held(vocabulary, words) == expected(used, words)
        assert held(vocabulary, words, False) == expected(used, words, False)
        if pick.random() < 0.5:
            new = pick.choice(
                [pick.choice(WORDS[:-1]) + "*", f'"{" ".join(pick.choices(WORDS[:-1], k=pick.choice((2, 2, 3, 5))))}"']
            )
            enter(vocabulary, [new, pick.choice(WORDS)])
            used.add(new)
        elif pick.random() < 0.3:
            used = {pattern for pattern in used if pick.random() < 0.6}
            sweep(vocabulary, used)
        if pick.random() < 0.1:
            vocabulary = Vocabulary().load(vocabulary.state())


def sweep(vocabulary: Vocabulary, kept: set[str]) -> None:
    """Free everything but these patterns and the words of phrases."""
    marks = np.zeros(vocabulary.capacity, bool)
    marks[enter(vocabulary, sorted(kept))] = True
    vocabulary.patterns.mark_words(marks)
    numbers = vocabulary.keys.numbers()
    vocabulary.free(numbers[~marks[numbers]])


def test_links_do_not_pile_up() -> None:
    vocabulary = Vocabulary()
    enter(vocabulary, ["wo*"])
    sizes = []
    for turn in range(40):
        enter(vocabulary, [f"word{turn}x{n}" for n in range(1000)])
        sweep(vocabulary, {"wo*"})
        sizes.append(vocabulary.patterns.nbytes)
    assert sizes[-1] <= 2 * sizes[9]
    assert held(vocabulary, ["wonder"]) == {"wo*"}


def test_words_behind_patterns() -> None:
    vocabulary = Vocabulary()
    patterns: Patterns = vocabulary.patterns
    followers = [patterns.follow() for _ in range(2)]
    prefix, phrase, *_ = enter(vocabulary, ["ab*", '"b abc b"', "abd", "ab", "x"])
    assert {vocabulary.word(int(term)) for term in patterns.words_with(prefix)} == {"ab", "abc", "abd"}
    assert [vocabulary.word(int(term)) for term in patterns.words_of(phrase)] == ["b", "abc", "b"]
    assert patterns.words_of(prefix).size == 0
    assert patterns.is_prefix(prefix)
    assert not patterns.is_prefix(phrase)
    for follower in followers:
        assert sorted(follower.take().tolist()) == sorted([prefix, phrase])
        assert follower.take().size == 0


def test_many_phrases() -> None:
    vocabulary = Vocabulary()
    phrases = [f'"{a} {b} {c}"' for a in "abcde" for b in "fghij" for c in "klmno"]
    enter(vocabulary, phrases)
    assert held(vocabulary, ["a", "f", "k", "a", "f", "l"]) == {'"a f k"', '"a f l"'}
