from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
import pytest

from nearcast.columns.ids import IdColumn
from nearcast.columns.updates import Origin, UpdateColumns, Updates
from nearcast.errors import SetupError
from nearcast.model.update import Reject, Update
from nearcast.text.strings import arrow_bytes

SOME = [Update("ann", 1, "-", 0.5, 7), Update("bob", 2, "+", None, 8)]


def some_updates(rejects: tuple[Reject, ...] = ()) -> Updates:
    ids = IdColumn(*arrow_bytes(pa.array(["ann", "bob"]))), IdColumn(np.array([1, 2]), None)
    told = UpdateColumns(*ids, np.array([-1, 1], np.int32), np.array([0.5, np.nan]), np.array([7, 8]))
    return Updates(told, rejects, origin=Origin(np.zeros(2, np.int64), np.zeros(2, np.int64)))


def test_updates_are_iterated_counted_and_given_as_arrow() -> None:
    updates = some_updates()
    assert list(updates) == SOME
    assert list(updates) == SOME, "again"
    assert updates[1] == SOME[1]
    assert list(updates) == SOME, "from Arrow"
    assert len(updates) == 2
    assert updates.rejects == []
    assert updates.to_arrow().to_pylist() == [
        {"subscription": "ann", "message": 1, "sign": "-", "score": 0.5, "ts": 7},
        {"subscription": "bob", "message": 2, "sign": "+", "score": None, "ts": 8},
    ]
    assert updates.to_arrow().schema.field("ts").type == pa.int64()
    assert updates.to_arrow().schema.field("score").type == pa.float64()
    assert repr(updates).splitlines() == [
        "<Updates: 2 updates (1 +, 1 -), 0 rejects>",
        "subscription  message  sign  score  ts",
        "ann           1        -     0.5    7",
        "bob           2        +            8",
    ]


def test_one_update_and_a_slice_of_them() -> None:
    updates = Updates.concat([some_updates((Reject(0, "id", "id is required, got None"),)), some_updates()])
    assert [updates[0], updates[np.int64(1)], updates[-1], updates[-4]] == [*SOME, SOME[1], SOME[0]]
    for at in (4, -5):
        with pytest.raises(IndexError):
            updates[at]
    with pytest.raises(TypeError):
        updates["ann"]  # type: ignore[call-overload]
    both = SOME + SOME
    for chosen in (slice(1, 3), slice(None, None, -1), slice(-1, None), slice(3, 1), slice(0, 4, 2), slice(2, 99)):
        part = updates[chosen]
        assert list(part) == both[chosen]
        assert part.event.size == part.sequence.size == len(part)
        assert part.rejects == []


def test_where_updates_come_from() -> None:
    origin = Origin(np.array([3, 5]), np.array([11, 12]))
    updates = Updates(some_updates().to_arrow(), origin=origin, late=[Reject(1, "ts", "late")], ended=["bob"])
    whole = Updates.in_turn([(0, updates), (10, Updates.none([Reject(2, "id", "no")])), (20, updates)])
    assert whole.event.tolist() == [3, 5, 23, 25]
    assert whole.sequence.tolist() == [11, 12, 11, 12]
    assert whole[::-1].event.tolist() == [25, 23, 5, 3]
    assert [reject.row for reject in whole.rejects] == [12]
    assert [reject.row for reject in whole.late] == [1, 21]
    assert whole.ended == ["bob", "bob"]
    assert repr(whole).startswith("<Updates: 4 updates (2 +, 2 -), 1 rejects, 2 late, 2 ended>")


def test_updates_are_shown_in_short() -> None:
    names = pa.array(["<b>", "a\nb", "x" * 40, *("more" for _ in range(12))])
    n = len(names)
    ids = IdColumn(*arrow_bytes(names))
    updates = Updates(UpdateColumns(ids, ids, np.ones(n, np.int32), np.full(n, 0.1234567), np.zeros(n, np.int64)))
    lines = repr(updates).splitlines()
    assert len(lines) == 1 + 1 + 10 + 1
    assert lines[-1] == "... 5 more"
    assert "a b" in lines[3]
    assert "x" * 31 + "…" in lines[4]
    page = updates._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert page.count("<tr>") == 11


def test_updates_as_frames_of_other_libraries() -> None:
    updates = some_updates()
    pandas = pytest.importorskip("pandas")
    frame = updates.to_pandas()
    assert frame.columns.tolist() == updates.to_arrow().column_names
    assert frame["message"].tolist() == [1, 2]
    assert pandas.isna(frame["score"]).tolist() == [False, True]
    assert pa.table(updates).equals(updates.to_arrow())
    polars = pytest.importorskip("polars")
    assert updates.to_polars().equals(polars.DataFrame(updates))
    assert updates.to_polars().rows() == [tuple(row.values()) for row in updates.to_arrow().to_pylist()]


def test_without_polars_an_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(SetupError, match="pip install polars"):
        some_updates().to_polars()


def test_no_updates() -> None:
    reject = Reject(3, "lat", "lat must be a number, got 'x'")
    updates = Updates.none([reject])
    assert (list(updates), len(updates), updates.rejects) == ([], 0, [reject])
    assert updates.to_arrow().schema.names == some_updates().to_arrow().schema.names
    assert repr(updates) == "<Updates: 0 updates, 1 rejects>"


def test_updates_one_after_another() -> None:
    reject = Reject(0, "id", "id is required, got None")
    assert list(Updates.concat([])) == []
    assert list(Updates.concat([Updates.none(), some_updates(), Updates.none()])) == SOME
    both = Updates.concat([some_updates((reject,)), some_updates()], [reject])
    assert list(both) == SOME + SOME
    assert both.rejects == [reject]
