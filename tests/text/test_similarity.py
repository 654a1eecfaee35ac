from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.text.similarity import MEASURES, tsim

WORDS = st.frozensets(st.sampled_from("abcdefgh"), max_size=6)
WEIGHTS = st.lists(st.integers(1, 64).map(lambda eighths: eighths / 8), min_size=8, max_size=8)  # sums are exact


def definition(measure, s, m, weight):
    def w(words):
        return sum(weight[word] for word in words)

    return {
        "weighted": lambda: w(s & m) / w(s),
        "overlap": lambda: len(s & m) / len(s),
        "jaccard": lambda: w(s & m) / w(s | m),
        "dice": lambda: 2 * len(s & m) / (len(s) + len(m)),
        "cosine": lambda: len(s & m) / math.sqrt(len(s) * len(m)) if m else 0.0,
    }[measure]()


@pytest.mark.parametrize("measure", MEASURES)
@settings(deadline=None)
@given(s=WORDS.filter(bool), m=WORDS, weights=WEIGHTS)
def test_each_measure_is_its_definition(measure, s, m, weights):
    weight = dict(zip("abcdefgh", weights, strict=True))
    shared, weight_s, weight_m = (float(sum(weight[word] for word in words)) for words in (s & m, s, m))
    got = tsim(MEASURES[measure], shared, len(s & m), weight_s, weight_m, len(s), len(m))
    assert got == definition(measure, s, m, weight)
    assert 0.0 <= got <= 1.0


def test_equal_words_are_wholly_similar():
    for code in MEASURES.values():
        assert tsim(code, 0.3, 3, 0.3, 0.3, 3, 3) == 1.0
