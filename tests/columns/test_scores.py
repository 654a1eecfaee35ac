from __future__ import annotations

import math
import os
import random

import numpy as np
import pytest

from nearcast.columns.fields.values import FieldValues
from nearcast.columns.message_table import MESSAGE, MessageLayout, measure_rows
from nearcast.columns.scores import dot, dot_row, gather, scatter, shared_row, similar_score, topk_score
from nearcast.text.vocabulary import Vocabulary

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
N_WORDS = 12


def a_row(choice: random.Random) -> tuple[np.ndarray, np.ndarray]:
    terms = sorted(choice.sample(range(N_WORDS), choice.randint(0, 6)))
    return np.array(terms, np.int32), np.array([choice.randint(1, 3) for _ in terms], np.int32)


def test_scores_do_not_depend_on_which_side_is_scattered() -> None:
    choice = random.Random(7)
    idf = np.array([choice.uniform(0.1, 9) for _ in range(N_WORDS)])
    dense = np.zeros(N_WORDS)
    for _ in range(500 if COMPILED else 100):
        (terms, counts), (others, their_counts) = a_row(choice), a_row(choice)
        scatter(others, their_counts, 0, others.size, idf, dense)
        product = dot_row(terms, counts, 0, terms.size, idf, dense)
        weight, n_shared = shared_row(terms, 0, terms.size, idf, dense)
        gather(others, 0, others.size, dense)
        assert not dense.any()
        scatter(terms, counts, 0, terms.size, idf, dense)
        assert dot_row(others, their_counts, 0, others.size, idf, dense) == product
        assert shared_row(others, 0, others.size, idf, dense) == (weight, n_shared)
        gather(terms, 0, terms.size, dense)
        ours, theirs = (
            dict(zip(terms.tolist(), counts.tolist(), strict=True)),
            dict(zip(others.tolist(), their_counts.tolist(), strict=True)),
        )
        shared = ours.keys() & theirs.keys()
        assert n_shared == len(shared)
        assert weight == pytest.approx(sum(idf[term] for term in shared))
        assert product == pytest.approx(sum(ours[term] * theirs[term] * idf[term] ** 2 for term in shared))
        assert (product > 0) == bool(shared)


def test_a_stored_message_scores_as_its_row() -> None:
    terms, counts = np.array([9, 1, 3, 9], np.int32), np.array([1, 2, 1, 1], np.int32)
    rows = np.zeros(1, dtype=MESSAGE)
    rows["term_start"], rows["n_terms"] = 1, 2
    idf, dense = np.linspace(1, 2, N_WORDS), np.zeros(N_WORDS)
    dense[[1, 3]] = 0.5, 2.0
    product = dot(MessageLayout(rows, terms, counts, FieldValues(Vocabulary()).layout), 0, idf, dense)
    assert product == dot_row(terms, counts, 1, 2, idf, dense) == 2 * idf[1] * 0.5 + idf[3] * 2.0


def test_rows_are_measured_in_their_order() -> None:
    terms, counts = np.array([0, 1, 1, 2], np.int32), np.array([2, 1, 3, 1], np.int32)
    idf = np.array([0.5, 1.0, 2.0])
    norms, weights = np.empty(3), np.empty(3)
    measure_rows(np.array([0, 2, 4]), np.array([2, 2, 0], np.int32), terms, counts, idf, norms, weights)
    assert weights.tolist() == [1.5, 3.0, 0.0]
    assert norms.tolist() == [math.sqrt(2.0), math.sqrt(13.0), 0.0]


def test_scores_mix_place_and_text() -> None:
    assert topk_score(0.25, 0.8, 3.0, 2.0, 3.0) == pytest.approx(0.25 * 0.8 + 0.75 * 0.5)
    assert topk_score(1.0, 0.8, 3.0, 2.0, 3.0) == 0.8
    assert similar_score(0.25, 0.8, 0.4) == pytest.approx(0.25 * 0.8 + 0.75 * 0.4)
    assert similar_score(0.0, 0.8, 0.4) == 0.4
