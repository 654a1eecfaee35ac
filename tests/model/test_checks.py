from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from nearcast.errors import InvalidInput
from nearcast.model.checks import INT64_MAX, INT64_MIN, flag, identity, number, one_of, string, strings, unit, whole

NOT_NUMBERS = [None, True, np.True_, "1", b"1", [1.0], {}, 1j, object, np.array(1.0), np.array([1.0])]
NOT_FINITE = [float("nan"), float("inf"), -float("inf"), np.float64("nan"), np.float32("inf"), 10**400, -(10**400)]
NOT_WHOLE = [None, True, np.False_, "1", 5.0, np.float64(5), 0.5, float("nan"), [1], Fraction(3, 1).limit_denominator]


def refusal(check: Callable[..., Any], *arguments: Any) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        check("field", *arguments)
    assert caught.value.field == "field"
    return caught.value


@pytest.mark.parametrize(
    "value", [1, 1.5, -0.0, np.float64(2.5), np.float32(0.5), np.int8(3), np.uint64(7), Fraction(1, 4)]
)
def test_number_becomes_a_plain_float(value: Any) -> None:
    plain = number("field", value)
    assert type(plain) is float
    assert plain == value


@pytest.mark.parametrize("value", NOT_NUMBERS, ids=repr)
def test_number_refuses_other_types(value: Any) -> None:
    error = refusal(number, value)
    assert error.value is value
    assert str(error).startswith("field must be a number, got ")


@pytest.mark.parametrize("value", NOT_FINITE, ids=lambda value: repr(value)[:20])
def test_number_refuses_what_is_not_finite(value: Any) -> None:
    error = refusal(number, value)
    assert error.value is value
    assert str(error).startswith("field must be finite, got ")


def test_unit_is_a_closed_interval() -> None:
    assert (unit("field", 0), unit("field", 1), unit("field", np.float32(0.5))) == (0.0, 1.0, 0.5)
    assert str(refusal(unit, -1e-9)) == "field must be in [0, 1], got -1e-09"
    assert str(refusal(unit, 2)) == "field must be in [0, 1], got 2"
    assert str(refusal(unit, "x")) == "field must be a number, got 'x'"
    assert str(refusal(unit, float("nan"))) == "field must be finite, got nan"


@pytest.mark.parametrize("value", [0, INT64_MIN, INT64_MAX, np.int32(-4), np.uint8(4), np.int64(INT64_MAX)])
def test_whole_becomes_a_plain_int(value: Any) -> None:
    plain = whole("field", value)
    assert type(plain) is int
    assert plain == value


@pytest.mark.parametrize("value", NOT_WHOLE, ids=repr)
def test_whole_refuses_other_types(value: Any) -> None:
    assert str(refusal(whole, value)).startswith("field must be a whole number, got ")


def test_whole_keeps_to_its_range() -> None:
    assert str(refusal(whole, 0, 1, 9)) == "field must be >= 1, got 0"
    assert str(refusal(whole, 10, 1, 9)) == "field must be <= 9, got 10"
    assert str(refusal(whole, 2**63)) == f"field must be <= {2**63 - 1}, got {2**63}"
    assert str(refusal(whole, -(2**63) - 1)) == f"field must be >= {-(2**63)}, got {-(2**63) - 1}"
    assert str(refusal(whole, np.uint64(2**63))).startswith(f"field must be <= {2**63 - 1}, got ")


def test_flag() -> None:
    assert flag("field", True) is True
    assert flag("field", np.False_) is False
    for value in (0, 1, None, "true", [], np.int8(1)):
        assert str(refusal(flag, value)).startswith("field must be true or false, got ")


class Name(StrEnum):
    RAMEN = "ramen"


def test_string_becomes_plain() -> None:
    for value in ("", "naïve 🍜", np.str_("ramen"), Name.RAMEN):
        plain = string("field", value)
        assert type(plain) is str
        assert plain == value


def test_string_refuses_other_types_and_lone_surrogates() -> None:
    for value in (None, b"ramen", 1, ["ramen"]):
        assert str(refusal(string, value)).startswith("field must be a string, got ")
    error = refusal(string, "ab\ud83c")
    assert str(error) == "field must be valid Unicode (lone surrogate at position 3), got 'ab\\ud83c'"


def test_one_of() -> None:
    assert one_of("field", Name.RAMEN, ["sushi", "ramen"]) == "ramen"
    for value in ("Ramen", "", None, ["ramen"], 1):
        assert str(refusal(one_of, value, ["sushi", "ramen"])).startswith("field must be one of sushi, ramen, got ")


def test_identity_keeps_strings_and_ints_apart() -> None:
    assert identity("field", "7") == "7"
    assert identity("field", "é") == "é"
    plain = identity("field", np.int32(7))
    assert type(plain) is int
    assert plain == 7
    for value in (None, True, 7.0, b"7", ("a",), np.float64(7)):
        assert str(refusal(identity, value)).startswith("field must be a string or a whole number, got ")
    assert str(refusal(identity, 2**63)) == f"field must be <= {2**63 - 1}, got {2**63}"
    assert str(refusal(identity, "\udc00")) == (
        "field must be valid Unicode (lone surrogate at position 1), got '\\udc00'"
    )


def test_strings_take_any_list() -> None:
    assert strings("field", ["b", "a", "b", ""]) == ("b", "a", "b", "")
    assert strings("field", (word for word in ("é", "a"))) == ("é", "a")
    assert strings("field", {"b", "a", "c"}) == ("a", "b", "c")
    assert strings("field", frozenset(("é", "z"))) == ("z", "é")
    plain = strings("field", np.array(["b", "a"]))
    assert plain == ("b", "a")
    assert {type(word) for word in plain} == {str}


def test_strings_refuse_others() -> None:
    for value in ("ab", b"ab", {"a": 1}, None, 5, 1.5, np.array("a")):
        assert str(refusal(strings, value)).startswith("field must be a list of strings, got ")
    assert str(refusal(strings, ["a", None])) == "field must hold strings only, got None"
    assert str(refusal(strings, {"a", 1})) == "field must hold strings only, got 1"
    assert str(refusal(strings, ["a", "\ud800"])) == (
        "field must be valid Unicode (lone surrogate at position 1), got '\\ud800'"
    )
