"""Conditions: what they mean, how they are kept, and where they are wrong."""

from __future__ import annotations

import re
from math import inf
from typing import Any

import pytest
from field_definitions import NotACondition, condition, equals, is_number, ordered
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import LITERALS, NAMES, VALUES, Drawn, make_condition

from nearcast.errors import InvalidInput
from nearcast.model.codec import subscription_from_json, subscription_to_json
from nearcast.model.condition import ACCEPT, MAX_COMPARISONS, Condition, parse_condition
from nearcast.model.query import Nearest, Similar, Subscription, TopK, Within
from nearcast.model.region import Box


def outcome(parsed: Condition, fields: dict[str, Any] | None) -> bool:
    """Follow the comparisons, each decided by the definitions."""
    at = 0
    while at >= 0:
        comparison = parsed.comparisons[at]
        value = (fields or {}).get(comparison.name)
        if comparison.operator == "HAS":
            holds = value is not None
        elif comparison.operator in ("=", "!="):
            holds = equals(value, comparison.value) is (comparison.operator == "=")
        else:
            holds = ordered(value, comparison.operator, comparison.value)
        at = comparison.if_true if holds else comparison.if_false
    return at == ACCEPT


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_comparisons_in_turn_are_the_condition(data: st.DataObject) -> None:
    source = Drawn(data.draw)
    text = make_condition(source, 3)
    parsed, holds = parse_condition(text), condition(text)
    for _ in range(5):
        fields = {source.pick(NAMES): source.pick(VALUES) for _ in range(3)}
        assert outcome(parsed, fields) == holds(fields), fields
        keys = [parsed.comparisons[at] for at in parsed.keys]
        sure = all(equals(fields.get(key.name), key.value) for key in keys)
        assert sure or not holds(fields)
        assert not parsed.decided or sure == holds(fields)
        if parsed.range is not None and holds(fields):
            name, low, high = parsed.range
            assert is_number(fields.get(name))
            assert low <= fields[name] <= high
        if parsed.spans:
            name, low, high = parsed.range
            assert not (is_number(fields.get(name)) and low < fields[name] < high) or holds(fields)


@settings(deadline=None)
@given(st.data())
def test_what_is_malformed_is_malformed_for_both(data: st.DataObject) -> None:
    source = Drawn(data.draw)
    parts = (*LITERALS, "a", '"b c"', "AND", "OR", "NOT", "IN", "HAS", "(", ")", ",", "=", "<", "!=", "and")
    text = " ".join(source.pick(parts) for _ in range(source.pick(range(9))))
    try:
        condition(text)
    except NotACondition:
        with pytest.raises(InvalidInput):
            parse_condition(text)
    else:
        parse_condition(text)


@pytest.mark.parametrize(
    ("text", "position", "what"),
    [
        ("price <", 8, "needs a value here"),
        ("price", 6, "needs a comparison after price"),
        ("price 5", 7, "needs a comparison after price"),
        ("price == 5", 7, "is written as one ="),
        ("price <> 5", 7, "is written as !="),
        ("kind = food", 8, "must be in single quotes"),
        ('kind = "food"', 8, "must be in single quotes"),
        ("open = true", 8, "is written as TRUE"),
        ("open < TRUE", 8, "has no order"),
        ("kind NOT IN ('a')", 6, "is written as NOT kind IN"),
        ("kind IN 'a'", 9, 'needs "(" after IN'),
        ("kind IN ('a' 'b')", 14, 'needs "," or ")" here'),
        ("kind IN ()", 10, "must be a number, a string in single quotes, TRUE or FALSE"),
        ("kind IN ('a',", 14, "needs a value here"),
        ("a = 1 and b = 2", 7, "is written as AND"),
        ("a = 1 b = 2", 7, "needs AND or OR before it"),
        ("a = 1 && b = 2", 7, "is written as AND"),
        ("(a = 1", 1, 'has no ")" after it'),
        ("a = 1)", 6, 'has no "(" before it'),
        ("a = 'x", 5, "has no ' after it"),
        ("5 < a", 1, "must be the name of a field"),
        ("HAS", 4, "needs the name of a field here"),
        ("a = 1 AND", 10, "needs a comparison here"),
        ("NOT", 4, "needs a comparison here"),
        ("TRUE = 1", 1, 'write "TRUE" in quotes if a field is meant'),
        ("a = 1e999", 5, "is too large"),
        ("é = 1", 1, "in double quotes if it is not a plain word"),
        ("(" * 101 + "a = 1", 101, "is nested more than 100 deep"),
    ],
)
def test_errors_point_at_the_place(text: str, position: int, what: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(what)) as caught:
        Nearest(0, 0, "a", where=text)
    assert caught.value.field == "where"
    assert caught.value.value == text
    lines = str(caught.value).splitlines()
    assert lines[0] == f"where is malformed at position {position}"
    assert lines[2].lstrip().startswith("^")


@pytest.mark.parametrize(("where", "rule"), [("", "at least one comparison"), (" ", "at least one"), (5, "a string")])
def test_what_is_no_condition_at_all(where: Any, rule: str) -> None:
    with pytest.raises(InvalidInput, match=rule):
        TopK(0, 0, "a", where=where)


def test_a_condition_has_its_limits() -> None:
    values = ", ".join(map(str, range(MAX_COMPARISONS)))
    assert len(parse_condition(f"a IN ({values})").comparisons) == MAX_COMPARISONS
    with pytest.raises(InvalidInput, match=f"at most {MAX_COMPARISONS} comparisons"):
        parse_condition(f"a IN ({values}, 0)")


@pytest.mark.parametrize(
    ("text", "keys", "decided", "range_", "spans"),
    [
        ("kind = 'a'", (0,), True, None, False),
        ("open = TRUE AND kind = 'a'", (1, 0), True, None, False),
        ("price = 5", (0,), False, ("price", 5.0, 5.0), False),
        ("kind = 'a' OR kind = 'b'", (), False, None, False),
        ("kind IN ('a')", (0,), True, None, False),
        ("price >= 5 AND price < 9 AND kind = 'a'", (2,), False, ("price", 5.0, 9.0), False),
        ("price < 3 OR price = 5 AND kind = 'a'", (), False, ("price", -inf, 5.0), False),
        ("a > 1 AND b > 2 AND b < 3", (), False, ("b", 2.0, 3.0), False),
        ("NOT kind = 'a'", (), False, None, False),
        ("kind != 'a'", (), False, None, False),
        ("a = '1' AND b = '2' AND c = '3' AND d = '4'", (0, 1, 2), False, None, False),
        ("price >= 5 AND price < 9 AND price < 11", (), False, ("price", 5.0, 9.0), True),
        ("price > 5", (), False, ("price", 5.0, inf), True),
        ("price > 5 AND price != 7", (), False, ("price", 5.0, inf), False),
    ],
)
def test_what_must_hold_is_known(text: str, keys: Any, decided: bool, range_: Any, spans: bool) -> None:
    parsed = parse_condition(text)
    assert (parsed.keys, parsed.decided, parsed.range, parsed.spans) == (keys, decided, range_, spans)


def test_whole_numbers_stay_whole() -> None:
    assert parse_condition("a = 9007199254740993").comparisons[0].value == 2**53 + 1
    assert parse_condition("a = 1" + "0" * 30).comparisons[0].value == 1e30


@pytest.mark.parametrize(
    "query",
    [
        Within(Box(0, 0, 1, 1), "a", where="price < 5"),
        Similar(0, 0, "a", 0.5, 0.5, where="price < 5"),
        TopK(0, 0, "a", where="price < 5"),
        Nearest(0, 0, "a", where="price < 5"),
    ],
)
def test_every_query_has_one_and_goes_through_json(query: Any) -> None:
    form = subscription_to_json(Subscription(1, query))
    assert form["where"] == "price < 5"
    assert subscription_from_json(form) == Subscription(1, query)
    assert "where" not in subscription_to_json(Subscription(1, type(query)(**_without(query))))


def _without(query: Any) -> dict[str, Any]:
    form = {
        name: getattr(query, name)
        for name in ("region", "lon", "lat", "keywords", "delta", "tau")
        if hasattr(query, name)
    }
    return form


def test_comparisons_are_written_as_they_are_read() -> None:
    text = '"odd ""name" = \'it\'\'s\' AND open = TRUE OR HAS "AND" AND price >= -2.5'
    shown = [str(comparison) for comparison in parse_condition(text).comparisons]
    assert shown == ["\"odd \"\"name\" = 'it''s'", "open = TRUE", 'HAS "AND"', "price >= -2.5"]
