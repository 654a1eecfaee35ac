"""Texts of which only known words matter."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from nearcast.text.known_text import KnownText
from nearcast.text.one_text import MOST_BYTES
from nearcast.text.vocabulary import Vocabulary
from nearcast.text.words import tokenise

KNOWN = ["fire", "smoke", "ramen", "stra\u00dfe", "firefly", "fireflies", "firefl", "a", "\u00e9t\u00e9", "x" * 40]
OTHERS = ["nobody", "asked", "fir", "firefliesx", "b", "strasze", "x" * 41]


@pytest.fixture
def vocabulary() -> Vocabulary:
    made = Vocabulary()
    made.encode(tokenise(pa.array([" ".join(KNOWN)])))
    return made


def test_known_words_are_those_of_the_long_way(vocabulary: Vocabulary) -> None:
    pick, text = random.Random(5), KnownText(vocabulary)
    for _ in range(300):
        said = " ".join(pick.choices(KNOWN + OTHERS, k=pick.randrange(12)))
        n_before = len(vocabulary)
        counts = text.encode_known(said)
        assert len(vocabulary) == n_before
        trial = Vocabulary()
        trial.encode(tokenise(pa.array([" ".join(KNOWN)])))
        expected = trial.encode(tokenise(pa.array([said])))
        known = expected.terms < n_before  # numbers are given in order
        assert counts == (0, known.sum())
        n = counts[1]
        assert text.room.terms[:n].tolist() == expected.terms[known].tolist()
        assert text.room.repeats[:n].tolist() == expected.counts[known].tolist()


def test_long_texts_go_the_other_way(vocabulary: Vocabulary) -> None:
    text = KnownText(vocabulary)
    assert text.encode_known("a" * MOST_BYTES) == (0, 0)
    assert text.encode_known("a" * (MOST_BYTES + 1)) is None
    assert text.encode_known("\u00e9" * MOST_BYTES) is None
    assert text.encode_known("") == (0, 0)
