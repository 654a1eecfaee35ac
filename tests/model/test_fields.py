"""Fields as people give them: kept plain, or refused by name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from nearcast.errors import InvalidInput
from nearcast.model.codec import message_from_json, message_to_json
from nearcast.model.fields import fields_of
from nearcast.model.message import Message


def test_values_are_kept_plain() -> None:
    given = {
        "price": np.float32(2.5),
        "stars": np.int8(4),
        "open": np.bool_(True),
        "tags": ["new", "hot"],
        "kind": "food",
        "gone": None,
        "far": math.inf,
        "id": 2**64 - 1,
    }
    kept = fields_of(given)
    assert kept == {
        "price": 2.5,
        "stars": 4,
        "open": True,
        "tags": ("new", "hot"),
        "kind": "food",
        "far": math.inf,
        "id": 2**64 - 1,
    }
    assert [type(value) for value in kept.values()] == [float, int, bool, tuple, str, float, int]


def test_json_null_is_no_field_at_all() -> None:
    assert fields_of("null") == {}
    assert Message("a", 0.0, 0.0, "x", fields="null").fields == {}


def test_json_text_is_read() -> None:
    assert fields_of('{"a": 1, "b": ["x"], "c": null}') == {"a": 1, "b": ("x",)}


@pytest.mark.parametrize(
    ("given", "field", "rule"),
    [
        (5, "fields", "must be an object"),
        ("[1]", "fields", "must be an object"),
        ("{", "fields", "must be valid JSON"),
        ({1: 2}, "fields", "must have strings as names"),
        ({"a": {"b": 1}}, "fields.a", "must be a number, a string, a boolean or a list of strings"),
        ({"a": [1]}, "fields.a", "must hold strings only"),
        ({"a": b"x"}, "fields.a", "must be a number, a string"),
        ({"a": math.nan}, "fields.a", "must not be NaN"),
        ({"a": np.float64("nan")}, "fields.a", "must not be NaN"),
        ({"a": 2**64}, "fields.a", "at most 64 bits"),
        ({"a": np.timedelta64(1, "s")}, "fields.a", "must be a number"),
        ({"a": "\ud800"}, "fields.a", "valid Unicode"),
        ({"\ud800": 1}, "fields", "valid Unicode"),
    ],
)
def test_others_are_refused(given: Any, field: str, rule: str) -> None:
    with pytest.raises(InvalidInput, match=rule) as caught:
        Message(1, 0.0, 0.0, "a", fields=given)
    assert caught.value.field == field


def test_a_message_with_fields_goes_through_json() -> None:
    message = Message("m", 1.0, 2.0, "a", fields={"tags": ("x", "y"), "price": 3, "open": False})
    form = message_to_json(message)
    assert form["fields"] == {"tags": ["x", "y"], "price": 3, "open": False}
    assert message_from_json(form) == message
    assert len({message, message_from_json(form)}) == 1
    assert "fields" not in message_to_json(Message("m", 1.0, 2.0, "a"))


def test_a_feature_has_fields_among_its_properties() -> None:
    feature = {
        "type": "Feature",
        "id": 1,
        "geometry": {"type": "Point", "coordinates": [1, 2]},
        "properties": {"text": "a", "fields": {"price": 3}, "likes": 4},
    }
    assert message_from_json(feature).fields == {"price": 3}
