from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nearcast.errors import InvalidInput
from nearcast.model import Box, Message, Move, Publish, Subscribe, Subscription, TopK, Unsubscribe

BOX = Box(0, 0, 1, 1)


def refusal(make: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        make(*arguments)
    return str(caught.value)


def test_events() -> None:
    message = Message(1, 0, 0, "a", ts=5)
    subscription = Subscription("ann", TopK(0, 0, "a"))
    assert Publish(message, 5).message is message
    assert Subscribe(subscription).ts is None
    assert type(Subscribe(subscription, np.int64(5)).ts) is int
    assert Unsubscribe(np.int64(7), np.int64(5)) == Unsubscribe(7, 5)
    assert Move("ann", 1, 2) == Move("ann", lon=1.0, lat=2.0, region=None, ts=None)
    assert Move("ann", region=BOX, ts=np.int8(3)).ts == 3


def test_refusals() -> None:
    assert (
        refusal(Subscribe, Subscription("ann", TopK(0, 0, "a")), 5.0)
        == "ts must be whole epoch milliseconds, a datetime or an ISO 8601 string, got 5.0"
    )
    assert refusal(Unsubscribe, None) == "id must be a string or a whole number, got None"
    assert (
        refusal(Unsubscribe, "ann", "5")
        == "ts must be whole epoch milliseconds, a datetime or an ISO 8601 string, got '5'"
    )
    assert refusal(Move, 1.5, 0, 0) == "id must be a string or a whole number, got 1.5"
    assert refusal(Move, "ann") == "lon is required when there is no region, got None"
    assert refusal(Move, "ann", 1) == "lat is required when there is no region, got None"
    assert refusal(Move, "ann", float("nan"), 1) == "lon must be finite, got nan"
    assert refusal(Move, "ann", 1, None, BOX) == "lon must be left out when a region is given, got 1"
    assert refusal(Move, "ann", None, 2, BOX) == "lat must be left out when a region is given, got 2"
    assert refusal(Move, "ann", None, None, 5) == (
        "region must be a Box, Circle, Polygon or MultiPolygon, a bbox, GeoJSON or a geometry, got 5"
    )
    assert (
        refusal(Move, "ann", 1, 2, None, True)
        == "ts must be whole epoch milliseconds, a datetime or an ISO 8601 string, got True"
    )
