from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nearcast.errors import InvalidInput
from nearcast.model import Box, Circle, Clause, Nearest, Query, Similar, Subscription, TopK, Within

BOX = Box(0, 0, 1, 1)
PLACED: list[Callable[..., Similar | TopK | Nearest]] = [
    lambda **given: Similar(**{"lon": 1, "lat": 2, "keywords": "a", "delta": 0.5, "tau": 0.5, **given}),
    lambda **given: TopK(**{"lon": 1, "lat": 2, "keywords": "a", **given}),
    lambda **given: Nearest(**{"lon": 1, "lat": 2, "keywords": "a", **given}),
]
WITHIN: Callable[..., Within] = lambda **given: Within(**{"region": BOX, "keywords": "a", **given})  # noqa: E731


def refusal(make: Callable[..., Any], **given: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        make(**given)
    assert caught.value.field in given
    return str(caught.value)


def test_positional_order_and_defaults() -> None:
    assert Within(BOX, "a") == Within(region=BOX, keywords="a", backfill=True)
    assert Similar(1, 2, "a", 0.25, 0.75) == Similar(
        lon=1, lat=2, keywords="a", delta=0.25, tau=0.75, measure="weighted", backfill=True
    )
    assert TopK(1, 2, "a") == TopK(lon=1, lat=2, keywords="a", k=20, alpha=0.5, backfill=True)
    assert Nearest(1, 2, "a") == Nearest(lon=1, lat=2, keywords="a", k=10, match="all", backfill=True)
    assert [query.kind for query in (Within, Similar, TopK, Nearest)] == ["within", "similar", "topk", "nearest"]


def test_values_become_plain() -> None:
    query = TopK(np.float32(1), np.int8(2), np.array(["a", "b"]), np.int64(3), np.float32(0.5), np.True_)
    assert query == TopK(1.0, 2.0, ("a", "b"), 3, 0.5, True)
    assert [type(value) for value in (query.lon, query.k, query.alpha, query.backfill)] == [float, int, float, bool]


@pytest.mark.parametrize("make", PLACED)
def test_words_of_placed_queries(make: Callable[..., Similar | TopK | Nearest]) -> None:
    assert make(keywords="Ramen, sushi OR ramen").words == ("ramen", "sushi", "or", "ramen")
    assert make(keywords=["New York", "", "A", "a"]).words == ("new york", "a", "a")


def test_words_of_within() -> None:
    assert WITHIN(keywords=["b c", "", "A", "a"]).clauses == (Clause(("a", "b c"), ()),)
    query = WITHIN(keywords="b AND NOT c OR a")
    assert query.clauses == (Clause(("a",), ()), Clause(("b",), ("c",)))
    assert query.words == ("a", "b", "c")
    assert WITHIN(keywords=["AND"]).words == ("and",)


@pytest.mark.parametrize("make", [WITHIN, *PLACED])
def test_refuses_keywords(make: Callable[..., Query]) -> None:
    for empty in ("", "  ", [], ["", ""], ()):
        assert refusal(make, keywords=empty).startswith("keywords must hold at least one word, got ")
    assert refusal(make, keywords=None) == "keywords is required, got None"
    assert refusal(make, keywords=5) == "keywords must be a list of strings, got 5"
    assert refusal(make, keywords=["a", 5]) == "keywords must hold strings only, got 5"
    assert refusal(make, keywords="a\ud800") == (
        "keywords must be valid Unicode (lone surrogate at position 2), got 'a\\ud800'"
    )


@pytest.mark.parametrize("make", PLACED)
def test_refuses_text_without_words(make: Callable[..., Query]) -> None:
    assert refusal(make, keywords="--!") == "keywords must hold at least one word, got '--!'"


@pytest.mark.parametrize("make", [WITHIN, *PLACED])
def test_refuses_backfill(make: Callable[..., Query]) -> None:
    assert refusal(make, backfill=1) == "backfill must be true or false, got 1"
    assert refusal(make, backfill=None) == "backfill must be true or false, got None"
    assert make(backfill=False).backfill is False


@pytest.mark.parametrize("make", PLACED)
@pytest.mark.parametrize("name", ["lon", "lat"])
def test_refuses_places(make: Callable[..., Query], name: str) -> None:
    assert refusal(make, **{name: float("nan")}) == f"{name} must be finite, got nan"
    assert refusal(make, **{name: None}) == f"{name} must be a number, got None"


def test_refuses_region() -> None:
    assert refusal(WITHIN, region=[0, 0, 1]).startswith("region is malformed (bbox must be [min_lon, min_lat, ")
    assert (
        refusal(WITHIN, region=None)
        == "region must be a Box, Circle, Polygon or MultiPolygon, a bbox, GeoJSON or a geometry, got None"
    )
    assert WITHIN(region=Circle(0, 0, 1)).region == Circle(0, 0, 1)


def test_refuses_a_malformed_expression() -> None:
    assert "needs a word" in refusal(WITHIN, keywords="a AND")


def test_refuses_weights_and_thresholds() -> None:
    similar, topk, _ = PLACED
    for make, name in ((similar, "delta"), (similar, "tau"), (topk, "alpha")):
        assert refusal(make, **{name: 1.5}) == f"{name} must be in [0, 1], got 1.5"
        assert refusal(make, **{name: -0.5}) == f"{name} must be in [0, 1], got -0.5"
        assert refusal(make, **{name: float("nan")}) == f"{name} must be finite, got nan"
        assert refusal(make, **{name: "1"}) == f"{name} must be a number, got '1'"
        assert (getattr(make(**{name: 0}), name), getattr(make(**{name: 1}), name)) == (0.0, 1.0)


def test_refuses_k() -> None:
    for make in PLACED[1:]:
        assert refusal(make, k=0) == "k must be >= 1, got 0"
        assert refusal(make, k=2**31) == "k must be <= 2147483647, got 2147483648"
        assert refusal(make, k=2.0) == "k must be a whole number, got 2.0"
        assert refusal(make, k=True) == "k must be a whole number, got True"
        assert refusal(make, k=None) == "k must be a whole number, got None"


def test_refuses_measure_and_match() -> None:
    similar, _, nearest = PLACED
    assert refusal(similar, measure="euclid") == (
        "measure must be one of weighted, overlap, jaccard, dice, cosine, got 'euclid'"
    )
    assert refusal(nearest, match="some") == "match must be one of all, any, got 'some'"
    assert refusal(nearest, match=["all"]) == "match must be one of all, any, got ['all']"


@pytest.mark.parametrize("make", [WITHIN, *PLACED])
def test_queries_are_values(make: Callable[..., Query]) -> None:
    query = make(keywords=["b", "a"])
    for other in (make(keywords=("b", "a")), pickle.loads(pickle.dumps(query)), copy.deepcopy(query)):
        assert (other, hash(other), other.words) == (query, hash(query), query.words)
    assert dataclasses.replace(query, keywords="c").words == ("c",)
    with pytest.raises(dataclasses.FrozenInstanceError):
        query.backfill = False  # type: ignore[misc]


def test_subscription() -> None:
    query = TopK(1, 2, "a")
    assert Subscription(np.int64(7), query, np.int64(5)) == Subscription(7, query, 5)
    assert Subscription("ann", query).expires is None
    assert type(Subscription(np.int64(7), query).id) is int


def test_subscription_refuses() -> None:
    make: Callable[..., Subscription] = lambda **given: Subscription(**{"id": 1, "query": TopK(1, 2, "a"), **given})  # noqa: E731
    assert refusal(make, id=None) == "id must be a string or a whole number, got None"
    assert refusal(make, query="a") == "query must be a Within, Similar, TopK or Nearest, got 'a'"
    assert (
        refusal(make, expires=5.0)
        == "expires must be whole epoch milliseconds, a datetime or an ISO 8601 string, got 5.0"
    )
    assert refusal(make, expires=2**63) == f"expires must be <= {2**63 - 1}, got {2**63}"
