"""Texts of which only known words matter."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from nearcast.text.known_text import encode_known
from nearcast.text.one_text import OneText
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
    pick, text = random.Random(5), OneText(vocabulary)
    for _ in range(300):
        said = " ".join(pick.choices(KNOWN + OTHERS, k=pick.randrange(12)))
        n_before = len(vocabulary)
        assert text.hold(said)
        n = encode_known(text.call.table, text.call.keys, text.room)
        assert len(vocabulary) == n_before
        trial = Vocabulary()
        trial.encode(tokenise(pa.array([" ".join(KNOWN)])))
        expected = trial.encode(tokenise(pa.array([said])))
        known = expected.terms < n_before  # numbers are given in order
        assert n == known.sum()
        assert text.room.terms[:n].tolist() == expected.terms[known].tolist()
        assert text.room.repeats[:n].tolist() == expected.counts[known].tolist()
