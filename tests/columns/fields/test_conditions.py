"""Conditions over stored fields hold exactly when the definitions say so, and are forgotten with their last holder."""

from __future__ import annotations

import os
import random

import numpy as np
import pyarrow as pa
from field_definitions import condition
from strategies import NAMES, VALUES, Seeded, make_condition

from nearcast.columns.fields.conditions import NO_CONDITION, Conditions, satisfies
from nearcast.columns.fields.decode import from_mappings
from nearcast.columns.fields.values import FieldValues
from nearcast.model.fields import fields_of
from nearcast.text.vocabulary import Vocabulary

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"


def test_conditions_hold_as_defined() -> None:
    pick, vocabulary = random.Random(5), Vocabulary()
    values, conditions = FieldValues(vocabulary), Conditions(vocabulary)
    n = 150
    given = [{pick.choice(NAMES): pick.choice(VALUES) for _ in range(pick.randrange(5))} for _ in range(n)]
    texts = [make_condition(Seeded(seed), 3) for seed in range(400 if COMPILED else 100)]
    numbers = conditions.add(pa.array(texts[:50]), 50)
    values.store(np.arange(n, dtype=np.int32), from_mappings([fields_of(fields) for fields in given]), n)
    numbers = np.concatenate([numbers, conditions.add(pa.array(texts[50:]), len(texts) - 50)])
    for text, number in zip(texts, numbers.tolist(), strict=True):
        holds = condition(text)
        for slot in range(n):
            found = satisfies(conditions.layout, number, values.layout, slot)
            assert found == holds(given[slot]), (text, given[slot])
        assert satisfies(conditions.layout, number, values.layout, n + 7) == holds(None), text


def test_equal_texts_are_one_condition() -> None:
    conditions = Conditions(Vocabulary())
    numbers = conditions.add(pa.array(["a = 1", None, "b = 2", "a = 1"]), 4)
    assert numbers[0] == numbers[3] != numbers[2]
    assert numbers[1] == NO_CONDITION
    assert len(conditions) == 2
    assert conditions.texts(numbers).to_pylist() == ["a = 1", None, "b = 2", "a = 1"]
    conditions.drop(numbers[:2])
    assert len(conditions) == 2
    conditions.drop(numbers[2:])
    assert len(conditions) == 0
    assert conditions.add(None, 3).tolist() == [NO_CONDITION] * 3


def test_churn_settles() -> None:
    vocabulary = Vocabulary()
    conditions = Conditions(vocabulary)
    for turn in range(60):
        numbers = conditions.add(pa.array([f"a IN ({turn}, {turn + i}, 'x{i}')" for i in range(40)]), 40)
        conditions.drop(numbers)
    assert len(conditions) == 0
    assert conditions.layout.comparisons.size < 4096


def test_names_are_those_asked_for() -> None:
    vocabulary = Vocabulary()
    conditions = Conditions(vocabulary)
    assert conditions.names == set()
    first = conditions.add(pa.array(['price < 3 AND HAS "Größe"', "price > 5 OR kind = 'x'"]), 2)
    assert conditions.names == {"price", "Größe", "kind"}
    second = conditions.add(pa.array(["kind = 'y'"]), 1)
    conditions.drop(first)
    assert conditions.names == {"kind"}
    twin = Conditions(vocabulary)
    twin.load(conditions.state())
    assert twin.names == {"kind"}
    twin.drop(second)
    assert twin.names == set()
