from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

from nearcast.errors import InvalidInput
from nearcast.model import Message
from nearcast.model.instant import RULE as TIME_RULE

GOOD: dict[str, Any] = {"id": "m1", "lon": -73.97, "lat": 40.76, "text": "New ramen place", "ts": 5, "expires": 9}


def refusal(**changes: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        Message(**{**GOOD, **changes})
    assert caught.value.field in changes
    return str(caught.value)


def test_fields_in_order() -> None:
    message = Message("m1", 1.0, 2.0, "hi", None, 3, 4, {"a": 5})
    assert dataclasses.astuple(message) == ("m1", 1.0, 2.0, "hi", None, 3, 4, {"a": 5})
    assert Message("m1", 1.0, 2.0, "").words == ()


def test_values_become_plain() -> None:
    message = Message(
        np.int64(7), np.float32(0.5), 2, keywords=np.array(["New York", "é", ""]), ts=np.int64(5), expires=np.uint8(6)
    )
    assert message == Message(7, 0.5, 2.0, keywords=("New York", "é", ""), ts=5, expires=6)
    kinds = [int, float, float, type(None), tuple, int, int, type(None)]
    assert [type(value) for value in dataclasses.astuple(message)] == kinds
    assert type(Message(np.str_("é"), 0.0, 0.0, np.str_("ß")).id) is str
    assert type(Message(np.str_("é"), 0.0, 0.0, np.str_("ß")).text) is str


def test_words() -> None:
    assert Message(1, 0, 0, "A a, b").words == ("a", "a", "b")
    assert Message(1, 0, 0, keywords=["New York", "", "A"]).words == ("new york", "a")
    assert Message(1, 0, 0, keywords=[]).words == ()


def test_keywords_as_a_string_are_text() -> None:
    assert Message(1, 0, 0, keywords="New York, é!").keywords == ("new", "york", "é")


def test_is_a_value() -> None:
    message = Message(**GOOD)
    assert hash(message) == hash(Message(**GOOD))
    assert pickle.loads(pickle.dumps(message)) == copy.deepcopy(message) == dataclasses.replace(message) == message
    with pytest.raises(dataclasses.FrozenInstanceError):
        message.lon = 1.0  # type: ignore[misc]


@pytest.mark.parametrize("name", ["lon", "lat"])
def test_refuses_bad_places(name: str) -> None:
    assert refusal(**{name: float("nan")}) == f"{name} must be finite, got nan"
    assert refusal(**{name: float("-inf")}) == f"{name} must be finite, got -inf"
    assert refusal(**{name: 10**400}).startswith(f"{name} must be finite, got 1000")
    assert refusal(**{name: None}) == f"{name} must be a number, got None"
    assert refusal(**{name: True}) == f"{name} must be a number, got True"
    assert refusal(**{name: "1.5"}) == f"{name} must be a number, got '1.5'"


@pytest.mark.parametrize(("name", "low", "high"), [("ts", -(2**62), 2**62), ("expires", -(2**63), 2**63 - 1)])
def test_refuses_bad_times(name: str, low: int, high: int) -> None:
    assert refusal(**{name: 5.0}) == f"{name} {TIME_RULE}, got 5.0"
    assert refusal(**{name: True}) == f"{name} {TIME_RULE}, got True"
    assert refusal(**{name: "5"}) == f"{name} {TIME_RULE}, got '5'"
    assert refusal(**{name: high + 1}) == f"{name} must be <= {high}, got {high + 1}"
    assert refusal(**{name: low - 1}) == f"{name} must be >= {low}, got {low - 1}"


def test_refuses_bad_ids() -> None:
    assert refusal(id=None) == "id must be a string or a whole number, got None"
    assert refusal(id=False) == "id must be a string or a whole number, got False"
    assert refusal(id=1.0) == "id must be a string or a whole number, got 1.0"
    assert refusal(id=2**63) == f"id must be <= {2**63 - 1}, got {2**63}"
    assert refusal(id="m\ud800") == "id must be valid Unicode (lone surrogate at position 2), got 'm\\ud800'"


def test_refuses_bad_words() -> None:
    assert refusal(text=5) == "text must be a string, got 5"
    assert refusal(text=b"x") == "text must be a string, got b'x'"
    assert refusal(text="\udfff!") == "text must be valid Unicode (lone surrogate at position 1), got '\\udfff!'"
    assert refusal(text=None) == "text is required when there are no keywords, got None"
    assert refusal(keywords=["a"]) == "keywords must be left out when text is given, got ['a']"
    assert refusal(text=None, keywords=7) == "keywords must be a list of strings, got 7"
    assert refusal(text=None, keywords=["a", 7]) == "keywords must hold strings only, got 7"
    assert refusal(text=None, keywords="\ud800") == (
        "keywords must be valid Unicode (lone surrogate at position 1), got '\\ud800'"
    )
