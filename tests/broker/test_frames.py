"""Frames and streams of other libraries at every door: the same updates, rejects and rows as the Arrow table gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nearcast as nc
from nearcast.model.codec import message_to_json, subscription_to_json

SPACE = nc.Space((0, 0, 16, 16), "euclidean")
WORDS = ("ramen", "sushi", "fire", "smoke")


def broker(subscribed: bool = True) -> nc.Broker:
    made = nc.Broker(SPACE, nc.Window(count=30))
    if subscribed:
        made.subscribe_many(subscriptions())
    return made


def subscriptions() -> pa.Table:
    n = 24
    kinds = ["within", "nearest", "topk"]
    rows: list[dict[str, Any]] = []
    for i in range(n):
        row: dict[str, Any] = {"id": f"s{i}", "kind": kinds[i % 3], "keywords": WORDS[i % 4]}
        if i % 3 == 0:
            row |= {"min_lon": i % 7, "min_lat": i % 5, "max_lon": 12.0, "max_lat": 13.0, "expires": 40 + i}
        else:
            row |= {"lon": float(i % 13), "lat": float(i % 11), "k": 1 + i % 3}
        rows.append(row)
    rows[5]["lon"] = None
    rows[7]["id"] = "s4"
    return pa.Table.from_pylist(rows, schema=SUBSCRIPTIONS)


SUBSCRIPTIONS = pa.schema(
    [(name, pa.string()) for name in ("id", "kind", "keywords")]
    + [(name, pa.float64()) for name in ("min_lon", "min_lat", "max_lon", "max_lat", "lon", "lat")]
    + [("k", pa.int64()), ("expires", pa.int64())]
)


def messages() -> pa.Table:
    rng = np.random.default_rng(5)
    n = 90
    texts = [" ".join(rng.choice(WORDS, 2)) for _ in range(n)]
    texts[11] = None
    lat = rng.integers(0, 16, n).astype(float).tolist()
    lat[20] = None
    ts: list[int | None] = list(range(n))
    ts[3] = None
    ids = [f"m{i}" for i in range(n)]
    ids[40] = "m39"
    likes = list(range(n))
    lon = rng.integers(0, 16, n).astype(float)
    return pa.table({"id": ids, "lon": lon, "lat": lat, "text": texts, "ts": ts, "likes": likes})


def moves() -> pa.Table:
    ids = [f"s{i}" for i in (1, 2, 4, 1, 99, 0, 8)]
    return pa.table({"id": ids, "lon": [3.0, 4, 5, 6, 7, 8, None], "lat": [3.0, 4, 5, 6, 7, 8, 9]})


def ids() -> pa.Table:
    return pa.table({"id": ["s1", "s99", "s2", "s1", None]})


def pandas_frame(table: pa.Table) -> Any:
    pytest.importorskip("pandas")
    frame = table.to_pandas()
    frame.index = [f"row {i}" for i in range(len(frame))]
    return frame


def pandas_with_arrow_types(table: pa.Table) -> Any:
    pandas = pytest.importorskip("pandas")
    return table.to_pandas(types_mapper=pandas.ArrowDtype)


def pandas_with_categories(table: pa.Table) -> Any:
    frame = pandas_frame(table)
    for name in ("kind", "text", "keywords"):
        if name in frame:
            frame[name] = frame[name].astype("category")
    return frame


def polars_frame(table: pa.Table) -> Any:
    return pytest.importorskip("polars").from_arrow(table)


def duckdb_relation(table: pa.Table) -> Any:
    return pytest.importorskip("duckdb").from_arrow(table)


def reader(table: pa.Table) -> Any:
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=7))


class Streaming:
    """Whatever else speaks the protocol; it has no other way to be read."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


SOURCES = (
    pandas_frame, pandas_with_arrow_types, pandas_with_categories, polars_frame, duckdb_relation, reader, Streaming
)  # fmt: skip
DOORS: dict[str, tuple[Callable[[], pa.Table], bool]] = {
    "subscribe_many": (subscriptions, False),
    "publish": (messages, True),
    "move_many": (moves, True),
    "unsubscribe_many": (ids, True),
}


def with_origin(updates: nc.Updates) -> list[tuple[int, int, nc.Update]]:
    """Updates with their origin."""
    return list(zip(updates.event.tolist(), updates.sequence.tolist(), updates, strict=True))


def same(ours: nc.Updates, theirs: nc.Updates) -> None:
    assert with_origin(ours) == with_origin(theirs)
    assert [(one.row, one.field) for one in ours.rejects] == [(one.row, one.field) for one in theirs.rejects]
    assert (ours.late, ours.ended) == (theirs.late, theirs.ended)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
def test_a_frame_is_what_its_table_is(source: Callable[[pa.Table], Any], door: str) -> None:
    make, subscribed = DOORS[door]
    ours, theirs = broker(subscribed), broker(subscribed)
    if door != "publish":
        for one in (ours, theirs):
            one.publish(messages().slice(60))
    given = getattr(theirs, door)(make())
    same(getattr(ours, door)(source(make())), given)
    assert given.rejects
    assert door == "unsubscribe_many" or len(given) > 4
    assert ours.subscriptions().equals(theirs.subscriptions())
    same(ours.publish(nc.Message("last", 5, 5, "ramen sushi fire smoke", ts=500)),
         theirs.publish(nc.Message("last", 5, 5, "ramen sushi fire smoke", ts=500)))  # fmt: skip


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_streams_are_taken_in_like_whole_tables(size: int) -> None:
    rows = messages()
    batches = [batch for at in range(0, rows.num_rows, size) for batch in rows.slice(at, size).to_batches()]
    same(broker().publish(pa.RecordBatchReader.from_batches(rows.schema, batches)), broker().publish(rows))


def test_a_stream_is_read_as_it_is_published() -> None:
    ours = broker()
    seen: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for at in range(3):
            seen.append(ours.parts.context.live.last)
            yield from messages().slice(30 * at, 30).to_batches()

    stream = pa.RecordBatchReader.from_batches(messages().schema, batches())
    updates = ours.publish(stream)
    assert seen[0] == 0
    assert 0 < seen[1] < seen[2], "the batches before were published before this one was made"
    assert max(updates.event) > 60


def test_a_stream_that_breaks_leaves_what_came_before() -> None:
    ours = broker()

    def batches() -> Iterator[pa.RecordBatch]:
        yield from messages().slice(0, 10).to_batches()
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        ours.publish(pa.RecordBatchReader.from_batches(messages().schema, batches()))
    assert ours.stats()["messages"]["live"] == 10
    ours.check()


def test_an_empty_stream_says_nothing() -> None:
    ours = broker()
    none = pa.RecordBatchReader.from_batches(messages().schema, [])
    assert len(ours.publish(none)) == len(ours.publish(messages().slice(0, 0).to_reader())) == 0
    assert ours.publish([]).rejects == ours.subscribe_many(iter(())).rejects == []


NOT_ROWS = [
    ["id", "lon"], "id", [1, 2], range(3), [None], [("a", 1.0, 2.0, "text")], np.zeros(3),
    {"ann"}, [["id", 1]], pa.array([1, 2]),
]  # fmt: skip


@pytest.mark.parametrize("door", ["publish", "subscribe_many", "move_many"])
def test_what_is_no_rows_raises(door: str) -> None:
    ours = broker()
    before = ours.stats()
    for rows in [*NOT_ROWS, (word for word in WORDS)]:
        with pytest.raises(nc.InvalidInput, match=r"must be (rows|many)"):
            getattr(ours, door)(rows)
    assert ours.stats() == before


def test_messages_given_as_subscriptions_are_one_error() -> None:
    ours = broker(False)
    said = "subscriptions must be subscriptions, each with a kind; these are messages, which publish takes, got"
    rows = messages().slice(0, 5)
    for given in (rows, rows.to_pylist(), [nc.Message(1, 1, 1, "fire")], pandas_frame(rows), reader(rows)):
        with pytest.raises(nc.InvalidInput, match=said):
            ours.subscribe_many(given)
    mixed = ours.subscribe_many([*rows.to_pylist(), ("x", nc.Nearest(0, 0, "a"))])
    assert [reject.row for reject in mixed.rejects] == [0, 1, 2, 3, 4]
    assert ours.subscribe_many(rows.slice(0, 0)).rejects == []


def test_a_stray_thing_among_rows_is_a_reject() -> None:
    ours = broker()
    updates = ours.publish(["what?", nc.Message("a", 1, 1, "ramen"), None])
    assert [reject.row for reject in updates.rejects] == [0, 2]
    moved = ours.move_many([5, {"id": "s1", "lon": 1, "lat": 1}])
    assert [reject.row for reject in moved.rejects] == [0]
    taken = ours.subscribe_many([("x", nc.Nearest(0, 0, "a")), 7])
    assert [reject.row for reject in taken.rejects] == [1]


def test_frames_whose_columns_arrow_does_not_know() -> None:
    pandas = pytest.importorskip("pandas")
    ours, theirs = broker(), broker()
    table = messages().slice(0, 30)
    frame = table.to_pandas()
    frame["seen by"] = [object()] * 30
    same(ours.publish(frame), theirs.publish(table))
    mixed = pandas.DataFrame({"id": ["x", 5], "lon": [1.0, 1.0], "lat": [1.0, 1.0], "text": ["fire", float("nan")]})
    assert [(reject.row, reject.field) for reject in ours.publish(mixed).rejects] == [(1, "text")]
    twice = pandas.concat([frame, frame], axis=1)
    with pytest.raises(nc.InvalidInput, match="must have each column once"):
        ours.publish(twice)
    with pytest.raises(nc.InvalidInput, match="must have each column once"):
        ours.publish(pandas.concat([frame[["id"]], frame[["id"]]], axis=1))
    bare = pandas.DataFrame(index=[1, 2])
    assert [reject.field for reject in ours.publish(bare).rejects] == ["id", "id"]


def test_whole_numbers_that_pandas_made_floats() -> None:
    pandas = pytest.importorskip("pandas")
    ours = nc.Broker(SPACE, nc.Window(count=10))
    frame = pandas.DataFrame(
        {
            "id": [1, 2],
            "kind": ["nearest", "within"],
            "keywords": ["fire", "fire"],
            "lon": [1.0, None],
            "lat": [1.0, None],
            "k": [3, None],
            "region": [None, "[0, 0, 9, 9]"],
        }
    )
    assert frame["k"].dtype == "float64"
    assert ours.subscribe_many(frame).rejects == []
    frame["k"] = [2.5, None]
    frame["id"] = [3, 4]
    assert [reject.field for reject in ours.subscribe_many(frame).rejects] == ["k"]
    times = pandas.DataFrame({"id": ["a", "b"], "lon": 1.0, "lat": 1.0, "text": "fire", "ts": [5, None]})
    assert [update.ts for update in ours.publish(times)] == [5] * 6


def test_points_and_regions_of_geopandas() -> None:
    geopandas = pytest.importorskip("geopandas")
    shapely = pytest.importorskip("shapely")
    ours, theirs = broker(), broker()
    table = messages().slice(0, 18)
    frame = table.to_pandas()
    points = geopandas.points_from_xy(frame.pop("lon"), frame.pop("lat"))
    places = geopandas.GeoDataFrame(frame, geometry=points).rename_geometry("where")
    same(ours.publish(places), theirs.publish(table))
    shapes = [shapely.Point(3, 3), None, shapely.LineString([(0, 0), (1, 1)]), shapely.Point()]
    odd = geopandas.GeoDataFrame({"id": list("abcd"), "text": ["fire"] * 4}, geometry=shapes)
    updates = ours.publish(odd)
    assert [reject.row for reject in updates.rejects] == [1, 2, 3]
    assert "must be a GeoJSON Point" in updates.rejects[1].reason

    asked = geopandas.GeoDataFrame(
        {"id": ["p", "q", "r"], "kind": ["within", "nearest", "within"], "keywords": ["fire", "ramen", "smoke"]},
        geometry=[shapely.box(0, 0, 9, 9).difference(shapely.box(1, 1, 2, 2)), shapely.Point(4, 4), shapes[2]],
    )
    taken = ours.subscribe_many(asked)
    assert [(reject.row, reject.field) for reject in taken.rejects] == [(2, "region")]
    assert ours.subscription("q").query == nc.Nearest(4, 4, "ramen")
    region = ours.subscription("p").query.region  # type: ignore[union-attr]
    assert shapely.Polygon(region.points, region.holes).equals(asked.geometry[0])
    goals = geopandas.GeoDataFrame({"id": ["p", "q"]}, geometry=[shapely.box(5, 5, 6, 6), shapely.Point(7, 7)])
    assert ours.move_many(goals).rejects == []
    assert ours.subscription("q").query == nc.Nearest(7, 7, "ramen")


def test_a_projected_crs_is_refused_where_degrees_are_meant() -> None:
    geopandas = pytest.importorskip("geopandas")
    frame = geopandas.GeoDataFrame(
        {"id": ["a"], "text": ["fire"]}, geometry=geopandas.points_from_xy([13.4], [52.5]), crs=4326
    )
    metres = frame.to_crs(25833)
    ours = nc.Broker(nc.Space((13, 52, 14, 53)), nc.Window(count=10))
    said = r"crs must be in degrees, as frame\.to_crs\(4326\) gives it, or in a euclidean Space, got 'EPSG:25833'"
    for door in DOORS.keys() - {"unsubscribe_many"}:
        with pytest.raises(nc.InvalidInput, match=said):
            getattr(ours, door)(metres)
    assert [reject.field for reject in ours.unsubscribe_many(metres).rejects] == ["id"], "ids have no place"
    plain = nc.Broker(nc.Space((0, 0, 1e6, 1e7), metric="euclidean"), nc.Window(count=10))
    for one, taken in ((ours, frame), (ours, frame.to_crs(4269).assign(id="b")), (plain, metres), (plain, frame)):
        assert [reject.reason for reject in one.publish(taken).rejects if "live" not in reject.reason] == []
    placed = metres.assign(id="c", lon=13.4, lat=52.5)
    assert ours.publish(placed).rejects == [], "the geometry is not asked for"


def test_columns_of_ids_and_of_texts() -> None:
    pandas = pytest.importorskip("pandas")
    texts = ["ramen fire", None, "ramen"]
    wanted = nc.Weights.fit(texts)
    lists = [["ramen", "fire"], None, ["ramen"]]
    corpora: list[Any] = [
        pandas.Series(texts), pandas.DataFrame({"text": texts, "id": 1}), pandas.DataFrame({"what": texts}),
        pa.table({"text": texts, "keywords": [None, None, ["x"]]}), pa.table({"keywords": lists, "id": [1, 2, 3]}),
        pa.table({"text": ["ramen fire", None, None], "keywords": [None, None, ["ramen"]]}),
        pa.table({"text": texts}).to_reader(1), Streaming(pa.table({"text": texts})),
        pandas.DataFrame({"text": texts, "odd": [object()] * 3}),
    ]  # fmt: skip
    for corpus in corpora:
        weights = nc.Weights.fit(corpus)
        assert weights.n_texts == wanted.n_texts == 2
        assert weights.weight("fire") == wanted.weight("fire")
    with pytest.raises(nc.InvalidInput, match="must have a column text or keywords"):
        nc.Weights.fit(pandas.DataFrame({"a": texts, "b": texts}))
    ours = broker()
    assert [reject.row for reject in ours.unsubscribe_many(pandas.Series(["s1", "s99", "s2"])).rejects] == [1]
    polars = pytest.importorskip("polars")
    assert nc.Weights.fit(polars.Series(texts)).weight("fire") == wanted.weight("fire")
    assert [reject.row for reject in ours.unsubscribe_many(polars.Series(["s3", "s99", "s4"])).rejects] == [1]


def test_a_frame_that_cannot_be_read_is_refused() -> None:
    class Broken:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            raise RuntimeError("no stream today")

    for door in DOORS:
        with pytest.raises(nc.InvalidInput, match="no stream today"):
            getattr(broker(), door)(Broken())


def test_codecs_agree_with_frames() -> None:
    pandas = pytest.importorskip("pandas")
    said = [nc.Message(f"m{i}", i, i, keywords=["ramen", "two words"], ts=i) for i in range(5)]
    frame = pandas.DataFrame([message_to_json(message) for message in said])
    same(broker().publish(frame), broker().publish(said))
    asked = [nc.Subscription(i, nc.TopK(i, i, ["two words"], k=2)) for i in range(3)]
    rows = pandas.DataFrame([subscription_to_json(subscription) for subscription in asked])
    ours, theirs = broker(False), broker(False)
    same(ours.subscribe_many(rows), theirs.subscribe_many(asked))
    assert ours.subscriptions().equals(theirs.subscriptions())
