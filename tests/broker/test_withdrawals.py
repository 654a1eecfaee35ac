"""Messages that change and messages that are withdrawn, case by case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nearcast as nc

SPACE = nc.Space((0, 0, 10, 10), metric="euclidean", max_distance=10)
Row = tuple[Any, str, Any, float | None]


def made(window: nc.Window | None = None) -> nc.Broker:
    """One subscription of each kind around the origin."""
    broker = nc.Broker(SPACE, window or nc.Window())
    broker.subscribe("w", nc.Within(nc.Box(0, 0, 5, 5), "tram"))
    broker.subscribe("s", nc.Similar(0, 0, "tram", delta=0.5, tau=0.75))
    broker.subscribe("t", nc.TopK(0, 0, "tram", k=2, alpha=1.0))
    broker.subscribe("n", nc.Nearest(0, 0, "tram", k=2))
    return broker


def tram(
    lat: float, ts: int | None = 1, id: Any = "tram", text: str = "tram", expires: int | None = None
) -> nc.Message:
    return nc.Message(id, 0, lat, text, ts=ts, expires=expires)


def told(updates: nc.Updates) -> list[Row]:
    return sorted((u.subscription, u.sign, u.message, u.score) for u in updates)


def test_a_tram_enters_and_exits() -> None:
    broker = made()
    assert told(broker.update(tram(8))) == [("n", "+", "tram", 8.0), ("t", "+", "tram", pytest.approx(0.2))]
    entered = broker.update(tram(4, ts=2))
    assert told(entered) == [("s", "+", "tram", pytest.approx(0.8)), ("w", "+", "tram", None)]
    assert entered.sequence.tolist() == [2, 2]
    assert len(broker.update(tram(3, ts=3))) == 0
    assert broker.results("n") == [("tram", 3.0)]
    left = broker.update(tram(9, ts=4))
    assert told(left) == [("s", "-", "tram", pytest.approx(0.85)), ("w", "-", "tram", None)]
    assert left.sequence.tolist() == [3, 3]
    assert {u.ts for u in left} == {4}
    gone = broker.update(tram(9, ts=5, text="bus"))
    assert told(gone) == [("n", "-", "tram", 9.0), ("t", "-", "tram", pytest.approx(0.1))]
    assert gone.sequence.tolist() == [4, 4]
    broker.check()


def test_a_post_is_withdrawn() -> None:
    broker = made()
    broker.publish([tram(1), tram(2, id="b"), tram(3, id="c")])
    updates = broker.retract("tram")
    assert told(updates) == [
        ("n", "+", "c", 3.0), ("n", "-", "tram", 1.0), ("s", "-", "tram", pytest.approx(0.95)),
        ("t", "+", "c", pytest.approx(0.7)), ("t", "-", "tram", pytest.approx(0.9)), ("w", "-", "tram", None),
    ]  # fmt: skip
    assert [u.sign for u in updates if u.subscription == "n"] == ["-", "+"]
    assert broker.results("w") == [("c", None), ("b", None)]
    assert broker.stats()["messages"] == {"live": 2, "sequence": 3, "late": 0, "withdrawn": 1}
    with pytest.raises(nc.UnknownId, match="message_id must be the id of a live message"):
        broker.explain("w", "tram")
    assert told(broker.publish(tram(1, id="tram"))) != []
    broker.check()


def test_what_is_not_there_is_published_or_refused() -> None:
    broker = made()
    assert len(broker.update([tram(1, id="a"), tram(1, id="b")])) == 8
    with pytest.raises(nc.UnknownId, match="id must be the id of a live message, got 'c'"):
        broker.retract("c")
    with pytest.raises(nc.UnknownId, match="id must be the id of a live message, got 7"):
        broker.retract(7)
    with pytest.raises(nc.InvalidInput, match="id must be a string like the ids before it, got 7"):
        broker.update(tram(1, id=7))
    assert broker.update([{"id": "a"}, tram(2, id="b")]).rejects[0].row == 0
    assert broker.results("n") == [("a", 1.0), ("b", 2.0)]


@pytest.mark.parametrize("call", ["update", "retract"])
def test_without_a_window_nothing_is_live(call: str) -> None:
    broker = nc.Broker(SPACE)
    broker.publish(tram(1))
    with pytest.raises(nc.InvalidInput, match=f"window must be given to {call} messages, got None"):
        getattr(broker, call)(tram(1) if call == "update" else "tram")


def test_a_refused_or_late_version_leaves_the_old_one() -> None:
    broker = made(nc.Window(age=10, max_ahead=20))
    broker.update(tram(1, ts=10_000))
    with pytest.raises(nc.InvalidInput, match="ts must be at most 20"):
        broker.update(tram(2, ts=90_000))
    late = broker.update([tram(2, ts=0), tram(3, ts=10_500, expires=10_200)])
    assert [reject.row for reject in late.late] == [0, 1]
    assert len(late) == 0
    assert broker.results("n") == [("tram", 1.0)]
    assert broker.stats()["clock"] == 10_500
    assert told(broker.update(tram(8, ts=100))) == []  # late by age, and the clock has moved on
    assert told(broker.update(tram(8, ts=5_000))) == [("s", "-", "tram", pytest.approx(0.95)), ("w", "-", "tram", None)]


def test_live_means_live_before_the_event() -> None:
    """The old version would expire by the clock, or by the count, in the same event: it leaves by the update."""
    by_clock = made(nc.Window(age=1))
    by_clock.publish(tram(1, ts=0))
    left = by_clock.update(tram(9, ts=5_000))
    assert told(left) == [("s", "-", "tram", pytest.approx(0.95)), ("w", "-", "tram", None)]
    by_count = made(nc.Window(count=1))
    by_count.publish(tram(1, ts=0))
    assert told(by_count.update(tram(9, ts=0))) == told(left)
    assert [id for id, _ in by_count.results("n")] == ["tram"]


def test_what_was_withdrawn_keeps_its_place_in_a_count() -> None:
    broker = made(nc.Window(count=3))
    broker.publish([tram(1, id="a"), tram(2, id="b"), tram(3, id="c")])
    broker.retract("b")
    assert [id for id, _ in broker.results("w")] == ["c", "a"]
    broker.publish(tram(4, id="d"))
    assert [id for id, _ in broker.results("w")] == ["d", "c"]
    broker.update(tram(4, id="d"))
    broker.update(tram(4, id="d"))
    assert [id for id, _ in broker.results("w")] == ["d"]
    broker.check()


def test_for_a_subscription_without_backfill_an_update_is_an_arrival() -> None:
    broker = nc.Broker(SPACE, nc.Window())
    broker.publish([tram(1), tram(1, id="b")])
    broker.subscribe("w", nc.Within(nc.Box(0, 0, 5, 5), "tram", backfill=False))
    broker.subscribe("n", nc.Nearest(0, 0, "tram", k=2, backfill=False))
    assert told(broker.retract("b")) == []
    assert told(broker.update(tram(2))) == [("n", "+", "tram", 2.0), ("w", "+", "tram", None)]
    assert told(broker.update(tram(8))) == [("w", "-", "tram", None)]


def test_one_id_several_times_in_a_batch() -> None:
    broker, other = made(), made()
    versions = [tram(lat, ts=ts) for ts, lat in enumerate((1, 9, 2, 2, 9, 1))]
    updates = broker.update(
        pa.Table.from_pylist([{"id": m.id, "lon": 0.0, "lat": m.lat, "text": "tram", "ts": m.ts} for m in versions])
    )
    one_by_one = [list(other.update(version)) for version in versions]
    assert list(updates) == [update for part in one_by_one for update in part]
    assert [told_ for told_ in updates.event.tolist() if told_ in (0, 3)] == [0, 0, 0, 0]
    assert len(broker.parts.context.live.table) == 1


def test_a_message_that_was_dropped_as_dominated_comes_back() -> None:
    """Two newer and nearer ones dominate `old` for good, until one of them is withdrawn."""
    broker = nc.Broker(SPACE, nc.Window(count=100))
    broker.subscribe("n", nc.Nearest(0, 0, "tram", k=2))
    broker.subscribe("t", nc.TopK(0, 0, "tram", k=2))
    broker.publish([tram(5, id="old"), tram(2, id="a"), tram(1, id="b")])
    assert [u.message for u in broker.retract("a") if u.sign == "+"] == ["old", "old"]
    assert [u.message for u in broker.retract("b") if u.sign == "+"] == []
    broker.check()


def test_restored_between_withdrawals(tmp_path: Path) -> None:
    broker = made(nc.Window(count=50))
    broker.publish([tram(n % 7, id=str(n)) for n in range(60)])
    broker.retract("50")
    broker.snapshot(tmp_path / "broker")
    restored = nc.Broker.restore(tmp_path / "broker")
    assert restored.stats()["messages"] == broker.stats()["messages"]
    for n in range(40, 60):
        if n != 50:
            assert list(broker.retract(str(n))) == list(restored.retract(str(n)))
            assert list(broker.update(tram(n % 3, id=str(n - 20)))) == list(
                restored.update(tram(n % 3, id=str(n - 20)))
            )
    restored.check()


def test_endless_updates_settle_in_memory() -> None:
    broker = nc.Broker(SPACE, nc.Window())
    broker.subscribe("w", nc.Within(nc.Box(0, 0, 5, 5), "tram"))
    broker.subscribe("t", nc.TopK(0, 0, "tram", k=2))
    sizes = []
    for turn in range(60):
        broker.update([tram((turn * n) % 9, id=str(n)) for n in range(100)])
        sizes.append(broker.stats()["bytes"]["messages"])
    assert len(broker.parts.context.live.table) == 100
    assert sizes[-1] <= 2 * max(sizes[:20])
    broker.check()
