"""Quotes, stars and tildes are refused where they mean nothing; lower-case operators are hinted at, once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import nearcast as nc
from nearcast.model import malformed
from nearcast.model.codec import subscription_from_json

BOX = nc.Box(0, 0, 8, 8)
QUERIES: list[Callable[[Any], Any]] = [
    lambda keywords: nc.Similar(1, 1, keywords, 0.5, 0.5),
    lambda keywords: nc.TopK(1, 1, keywords),
    lambda keywords: nc.Nearest(1, 1, keywords),
    lambda keywords: subscription_from_json({"id": 1, "kind": "nearest", "lon": 1, "lat": 1, "keywords": keywords}),
]
WITHIN: list[Callable[[Any], Any]] = [
    lambda keywords: nc.Within(BOX, keywords),
    lambda keywords: subscription_from_json({"id": 1, "kind": "within", "region": [0, 0, 1, 1], "keywords": keywords}),
]
MARKS = [
    ('"new york"', 1, "phrase, which only expressions of Within have"),
    ('pizza "new', 7, "phrase, which only expressions of Within have"),
    (
        "\N{LEFT DOUBLE QUOTATION MARK}new\N{RIGHT DOUBLE QUOTATION MARK}",
        1,
        "phrase, which only expressions of Within have",
    ),
    ("fire*", 5, "prefix, which only expressions of Within have"),
    ("*", 1, "prefix, which only expressions of Within have"),
    ("smoke fire~2", 11, "fuzzy word, which is not supported"),
]


@pytest.fixture
def unhinted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(malformed, "hinted", False)


@pytest.mark.parametrize("make", QUERIES)
@pytest.mark.parametrize(("text", "position", "what"), MARKS)
def test_marks_are_refused(make: Callable[[Any], Any], text: str, position: int, what: str) -> None:
    _refuses(make, text, "", text, position, what)


@pytest.mark.parametrize("make", QUERIES + WITHIN)
@pytest.mark.parametrize(("text", "position", "what"), MARKS)
def test_marks_in_lists_are_refused(make: Callable[[Any], Any], text: str, position: int, what: str) -> None:
    _refuses(make, ["road", text], " of item 2", text, position, what)


def _refuses(make: Callable[[Any], Any], keywords: Any, where: str, text: str, position: int, what: str) -> None:
    with pytest.raises(nc.InvalidInput) as caught:
        make(keywords)
    assert caught.value.field == "keywords"
    assert f"keywords is malformed at position {position}{where}\n" in str(caught.value)
    assert f"^ would make a {what}" in str(caught.value)
    assert str(caught.value).endswith(f"got {text!r}")


@pytest.mark.parametrize("make", WITHIN)
def test_expressions_take_phrases_and_prefixes(make: Callable[[Any], Any]) -> None:
    made = make('"new york" OR fire*')
    query = made.query if isinstance(made, nc.Subscription) else made
    assert query.words == ('"new york"', "fire*")
    _refuses(make, "smoke fire~2", "", "smoke fire~2", 11, "fuzzy word, which is not supported")


def test_the_picture_shows_the_place() -> None:
    with pytest.raises(nc.InvalidInput) as caught:
        nc.Within(BOX, "smoke OR fi*re")
    assert str(caught.value).splitlines()[1:3] == [
        "    smoke OR fi*re",
        "               ^ must be the last character of a word: it asks for all that start so, got 'smoke OR fi*re'",
    ]


def test_messages_may_hold_them() -> None:
    assert nc.Message(1, 1, 1, '"new york" fire* ~5').words == ("new", "york", "fire", "5")
    assert nc.Message(1, 1, 1, keywords=["fire*"]).words == ("fire*",)


def test_arrow_rows_with_marks_are_rejected() -> None:
    broker = nc.Broker(nc.Space((0, 0, 8, 8), "euclidean"), window=nc.Window(count=10))
    rows = {"id": [1, 2, 3], "kind": ["nearest"] * 3, "lon": [1.0] * 3, "lat": [1.0] * 3}
    for keywords in (["fire", "fire*", "smoke"], [["fire"], ["a", '"b"'], ["c"]]):
        rejects = broker.subscribe_many(pa.table({**rows, "keywords": keywords})).rejects
        assert [(reject.row, reject.field) for reject in rejects if "malformed" in reject.reason] == [(1, "keywords")]
        broker.unsubscribe_many([1, 3])


@pytest.mark.usefixtures("unhinted")
@pytest.mark.parametrize(
    "text", ["fire or smoke", "fire and smoke", "(fire) or (smoke)", "fire AND not smoke", "a Or b"]
)
def test_operators_in_lower_case_are_hinted_at_once(text: str) -> None:
    with pytest.warns(nc.NearcastWarning, match=r"operators are written AND, OR, NOT") as found:
        query = nc.Within(BOX, text)
    assert repr(text) in str(found[0].message)
    assert found[0].filename == __file__
    assert "fire" in query.words or "a" in query.words
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nc.Within(BOX, text)


@pytest.mark.usefixtures("unhinted")
@pytest.mark.parametrize(
    "text",
    ["fire OR smoke", "or fire", "fire or", "sand or", "nor or", "fire", "fire order", "notes", '"now or never" fire'],
)
def test_other_words_are_not(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nc.Within(BOX, text)
        nc.Within(BOX, ["rock", "and", "roll"])
        nc.Nearest(1, 1, "rock and roll")


@pytest.mark.usefixtures("unhinted")
def test_a_column_of_expressions_is_hinted_at() -> None:
    broker = nc.Broker(nc.Space((0, 0, 8, 8), "euclidean"))
    columns = {"id": [1, 2, 3, 4], "kind": ["within"] * 4, "region": ["[0, 0, 1, 1]"] * 4}
    words = pa.table({**columns, "keywords": [None, "fire", "fire or smoke", "a and b"]})
    with pytest.warns(nc.NearcastWarning, match=r"^keywords 'fire or smoke' asks") as found:
        assert [reject.row for reject in broker.subscribe_many(words).rejects] == [0]
    assert [warning.filename for warning in found] == [__file__]
