"""Times that look like seconds are flagged, once for each broker; nothing else is."""

from __future__ import annotations

import warnings
from typing import Any

import pyarrow as pa
import pytest

import nearcast as nc

SPACE = nc.Space((0, 0, 8, 8), "euclidean")
SECONDS = 1_700_000_000


def message(number: int, ts: Any) -> dict[str, Any]:
    return {"id": number, "lon": 1, "lat": 1, "text": "fire", "ts": ts}


def table(*times: int | None) -> pa.Table:
    return pa.Table.from_pylist([message(i, ts) for i, ts in enumerate(times)])


@pytest.mark.parametrize(
    "act",
    [
        lambda broker: broker.publish(nc.Message(1, 1, 1, "fire", ts=SECONDS)),
        lambda broker: broker.publish([message(1, SECONDS), message(2, None), message(3, SECONDS + 60)]),
        lambda broker: broker.publish(table(None, SECONDS, SECONDS + 60)),
        lambda broker: broker.advance(SECONDS),
    ],
)
def test_seconds_are_flagged_once(act: Any) -> None:
    broker = nc.Broker(SPACE, window=nc.Window(count=10))
    with pytest.warns(
        nc.NearcastWarning, match=r"^ts looks like seconds \(such as 1700000000\).*multiply by 1000"
    ) as found:
        act(broker)
    assert [warning.filename for warning in found] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        broker.publish(table(SECONDS + 70))
        broker.advance(SECONDS + 80)


def test_other_times_are_not() -> None:
    broker = nc.Broker(SPACE, window=nc.Window(count=10))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for times in ((), (None,), (5,), (SECONDS * 1000,), (SECONDS, SECONDS * 1000), (SECONDS * 1000, SECONDS)):
            broker.publish([message(100 + i, ts) for i, ts in enumerate(times)])
        broker.advance(5)
        broker.advance(10**9)


def test_a_warning_that_is_raised_changes_nothing() -> None:
    broker = nc.Broker(SPACE, window=nc.Window(count=10))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(nc.NearcastWarning):
            broker.publish(table(SECONDS))
    assert broker.stats()["messages"]["sequence"] == 0
    broker.publish(table(SECONDS))
    assert broker.stats()["messages"]["sequence"] == 1
