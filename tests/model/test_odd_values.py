"""Every constructor takes every odd value, or refuses it with `InvalidInput`; nothing else is ever raised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from odd_values import Raises, odd_values

import nearcast as nc
from nearcast.model.checks import is_a
from nearcast.model.event import Move, Subscribe, Unsubscribe

BOX = nc.Box(0, 0, 1, 1)
QUERY = nc.Nearest(0, 0, "fire")

# A constructor, and arguments that it takes.
MADE: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (nc.Space, {"bounds": (0, 0, 1, 1), "metric": "haversine", "max_distance": 1.0}),
    (nc.Window, {"count": 1, "age": 1.0, "max_ahead": 1.0}),
    (nc.Broker, {"space": nc.Space((0, 0, 1, 1), metric="euclidean"), "window": None, "weights": None}),
    (nc.Box, {"min_lon": 0, "min_lat": 0, "max_lon": 1, "max_lat": 1}),
    (nc.Circle, {"lon": 0, "lat": 0, "radius": 1}),
    (nc.Polygon, {"points": [(0, 0), (1, 0), (0, 1)], "holes": ()}),
    (nc.Within, {"region": BOX, "keywords": "fire", "backfill": True}),
    (
        nc.Similar,
        {"lon": 0, "lat": 0, "keywords": "fire", "delta": 0.5, "tau": 0.5, "measure": "dice", "backfill": True},
    ),
    (nc.TopK, {"lon": 0, "lat": 0, "keywords": "fire", "k": 1, "alpha": 0.5, "backfill": True}),
    (nc.Nearest, {"lon": 0, "lat": 0, "keywords": "fire", "k": 1, "match": "all", "backfill": True}),
    (nc.Subscription, {"id": 1, "query": QUERY, "expires": None}),
    (nc.Message, {"id": 1, "lon": 0, "lat": 0, "text": "fire", "keywords": None, "ts": None, "expires": None}),
    (nc.Message, {"id": 1, "lon": 0, "lat": 0, "keywords": ["fire"], "ts": 1, "expires": 2}),
    (Move, {"id": 1, "lon": 0, "lat": 0, "region": None, "ts": None}),
    (Move, {"id": 1, "region": BOX}),
    (Subscribe, {"subscription": nc.Subscription(1, QUERY), "ts": None}),
    (Unsubscribe, {"id": 1, "ts": None}),
    (nc.Weights.fit, {"texts": ["fire"]}),
    (lambda text: nc.Weights.fit(["fire", text]), {"text": "fire"}),
    (lambda word: nc.Weights.fit(["fire"]).weight(word), {"word": "fire"}),
]


@pytest.mark.parametrize(("make", "arguments"), MADE, ids=lambda value: getattr(value, "__qualname__", "arguments"))
def test_odd_values_are_taken_or_refused(make: Callable[..., Any], arguments: dict[str, Any]) -> None:
    make(**arguments)
    for name in arguments:
        for number, value in enumerate(odd_values()):
            try:
                made = make(**{**arguments, name: value})
            except nc.InvalidInput:
                pass
            except Raises:
                assert is_a(value, Iterator), "only what a caller's own iterator raises is passed on"
            except Exception as error:
                raise AssertionError(f"{name} = odd value {number}, a {type(value)}: {type(error)}") from error
            else:
                repr(made)
                hash(made) if getattr(made, "__dataclass_params__", None) else None


def test_what_was_taken_is_plain() -> None:
    """Nothing of the caller's own classes stays inside, where it would be looked at again."""
    plain = (int, float, str, bool, type(None), tuple, nc.Box, nc.Circle, nc.Nearest, nc.Subscription)
    for make, arguments in MADE:
        if not isinstance(make, type) or make is nc.Broker:
            continue
        for name in arguments:
            for value in odd_values():
                try:
                    made = make(**{**arguments, name: value})
                except (nc.InvalidInput, Raises):
                    continue
                kept = getattr(made, name)
                assert type(kept) in plain, (make, name, type(kept))
                if isinstance(kept, tuple):
                    assert {type(item) for item in kept} <= set(plain), (make, name)
