"""Files of every format become the same rows, and what cannot be read is counted, not lost."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast.errors import InvalidInput, SetupError
from nearcast.spark.run.file_rows import SIDES, IdTypes, SourceFile, columns_of, first_ids, keywords_text, read_file
from nearcast.spark.run.files import Input, batch_frames, find_files, format_of, grouped, id_types
from nearcast.spark.run.value_rows import value_frame

MESSAGES = [
    {"id": 1, "lon": 1.5, "lat": 2.0, "text": "Fire, fire!", "ts": 10, "expires": None},
    {"id": 2, "lon": -1.0, "lat": 0.25, "text": 'said "hi"\nthen left', "ts": 11, "expires": 99},
    {"id": 3, "lon": 0.0, "lat": 0.0, "text": "", "ts": 12},
]
CSV = 'id,lon,lat,text,ts,expires\n1,1.5,2,"Fire, fire!",10,\n2,-1,0.25,"said ""hi""\nthen left",11,99\n3,0,0,,12,\n'
NUMBERS = IdTypes("bigint", "string")
Row = dict[str, Any]


def rows(path: Path, role: str = "messages", ids: IdTypes = NUMBERS, side: str | None = None) -> list[Row]:
    (file,) = find_files([Input(str(path), role)])
    found = list(read_file(file, SIDES if side is None else (side,), ids))
    assert all(table.schema == columns_of(side, ids) for side, table in found)
    return [row for _, table in found for row in table.to_pylist()]


def told(found: list[Row]) -> list[Row]:
    names = ("id", "lon", "lat", "text", "keywords", "ts", "expires", "refused")
    return [{name: row[name] for name in names} for row in found]


def refusals(found: list[Row]) -> list[tuple[str, str] | None]:
    return [row["refused"] and (row["refused"]["field"], row["refused"]["reason"]) for row in found]


def lines(path: Path, values: list[Any]) -> Path:
    path.write_text("".join((v if isinstance(v, str) else json.dumps(v)) + "\n" for v in values))
    return path


def test_all_formats_read_alike(tmp_path: Path) -> None:
    plain = lines(tmp_path / "m.jsonl", MESSAGES)
    (tmp_path / "m.csv").write_text(CSV)
    pq.write_table(pa.Table.from_pylist(MESSAGES), tmp_path / "m.parquet")
    (tmp_path / "m.ndjson.gz").write_bytes(gzip.compress(plain.read_bytes()))
    (tmp_path / "m.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    place = lambda m: {"type": "Point", "coordinates": [m["lon"], m["lat"]]}  # noqa: E731
    features = [{"type": "Feature", "id": m["id"], "geometry": place(m), "properties": m} for m in MESSAGES]
    (tmp_path / "m.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}, indent=1))
    lines(tmp_path / "m.geojsonl", features)
    expected = told(rows(plain))
    assert [row["text"] for row in expected] == [m["text"] for m in MESSAGES]
    assert not any(row["refused"] for row in expected)
    for name in ("m.csv", "m.parquet", "m.ndjson.gz", "m.csv.gz", "m.geojson", "m.geojsonl"):
        assert told(rows(tmp_path / name)) == expected, name


def test_positions_sources_and_raw_text(tmp_path: Path) -> None:
    path = lines(tmp_path / "m.jsonl", ["\ufeff" + json.dumps(MESSAGES[0]), "", "  ", "{broken", MESSAGES[1]])
    found = rows(path)
    assert [row["position"] for row in found] == [1, 4, 5]
    assert {row["source"] for row in found} == {str(path)}
    assert [row["raw"] for row in found] == [None, "{broken", None]
    (tmp_path / "m.csv").write_text(CSV)
    assert [row["position"] for row in rows(tmp_path / "m.csv")] == [2, 3, 5]


def test_bytes_that_are_no_text_are_rejects_wherever_they_stand(tmp_path: Path) -> None:
    good = json.dumps(MESSAGES[0]).encode()
    (tmp_path / "m.jsonl").write_bytes(b'{"id": "\xff"}\n' + good + b"\r\n" + b'\xed\xa0\x80\n{"id": "\\ud800"}\n')
    found = rows(tmp_path / "m.jsonl")
    assert refusals(found)[0] == ("row", "row must be UTF-8: invalid start byte at byte 9")
    assert found[0]["raw"] == '{"id": "\\xff"}'
    assert [told is None for told in refusals(found)] == [False, True, False, False]
    (tmp_path / "m.csv").write_bytes(b"id,lon,lat,text,t\xff\n1,0,0,caf\xe9,\n2,0,0,caf\xc3\xa9,\xff\n3,0,0,x,\n")
    found = rows(tmp_path / "m.csv")
    assert [row["text"] for row in found if not row["refused"]] == ["café", "x"]
    assert (refusals(found)[0] or ("",))[0] == "text"
    odd = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"\xffa")]
    )
    pq.write_table(pa.table({"id": [1, 2], "lon": [0.0, 0.0], "lat": [0.0, 0.0], "text": odd}), tmp_path / "m.parquet")
    found = rows(tmp_path / "m.parquet")
    assert [row["text"] for row in found] == [None, "a"]
    assert (refusals(found)[0] or ("",))[0] == "text"


def test_what_a_file_is_given_as_decides_the_frame(tmp_path: Path) -> None:
    box = {"id": "b", "kind": "within", "region": [0, 0, 1, 1], "keywords": "x"}
    mixed = [
        {"id": 1, "lon": 0, "lat": 0, "text": "x"}, box, {"event": "move", "id": "b", "region": [0, 0, 2, 2], "ts": 3},
        {"event": "unsubscribe", "id": "b"}, {"event": "advance", "ts": 9}, "{broken",
        {"event": "explode", "id": 4}, "7",
    ]  # fmt: skip
    path = lines(tmp_path / "e.jsonl", mixed)
    controls = rows(path, "events", side="subscriptions")
    assert [(row["event"], row["id"], row["ts"]) for row in controls] == [
        ("subscribe", "b", None), ("move", "b", 3), ("unsubscribe", "b", None),
    ]  # fmt: skip
    assert [json.loads(row["region"]) if row["region"] else None for row in controls] == [
        [0, 0, 1, 1],
        [0, 0, 2, 2],
        None,
    ]
    messages = rows(path, "events", side="messages")
    assert [row["position"] for row in messages] == [1, 5, 6, 7, 8]
    assert [told and told[0] for told in refusals(messages)] == [None, None, "row", "event", "row"]
    assert messages[1]["event"] == "advance"
    assert rows(path, "messages", side="subscriptions") == []
    asked = [told and told[0] for told in refusals(rows(path, "subscriptions"))]
    assert asked == ["kind", None, None, None, None, "row", "event", "row"]


def test_subscriptions_in_every_format(tmp_path: Path) -> None:
    header = "id,kind,min_lon,min_lat,max_lon,max_lat,lon,lat,keywords,k,alpha,decay,backfill,expires\n"
    (tmp_path / "s.csv").write_text(
        header + 'a,within,0,0,1,1,,,"[""x"", ""New York""]",,,,,\nb,topk,,,,,1,2,x y,3,0.5,90.5,false,1970-01-02\n'
    )
    table = [
        {"id": "a", "kind": "within", "min_lon": 0.0, "min_lat": 0.0, "max_lon": 1.0, "max_lat": 1.0},
        {"id": "b", "kind": "topk", "lon": 1.0, "lat": 2.0, "k": 3, "alpha": 0.5, "decay": 90.5, "backfill": False},
    ]
    columns: dict[str, Any] = {name: [row.get(name) for row in table] for row in table for name in row}
    columns |= {"keywords": [["x", "New York"], ["x", "y"]], "expires": pa.array([None, 1], pa.date32())}
    pq.write_table(pa.table(columns), tmp_path / "s.parquet")
    found = {name: rows(tmp_path / name, "subscriptions") for name in ("s.csv", "s.parquet")}
    for made in found.values():
        assert refusals(made) == [None, None]
        assert [row["keywords"] for row in made] == ['["x", "New York"]', "x y"]
        assert [row["backfill"] for row in made] == [None, False]
        assert [row["decay"] for row in made] == [None, 90.5]
        assert [row["expires"] for row in made] == [None, 86_400_000]


def test_lists_of_words_become_text_where_that_means_the_same() -> None:
    assert keywords_text("a OR b") == "a OR b"
    assert keywords_text(["AND", "Été"]) == "and été"
    for odd in (["new york"], ["½"], ["a_b"], [""], ["a*"]):
        assert json.loads(keywords_text(odd)) == odd


def test_a_file_that_breaks_off_keeps_what_was_read(tmp_path: Path) -> None:
    packed = gzip.compress(b"".join(json.dumps({**MESSAGES[0], "id": i}).encode() + b"\n" for i in range(5_000)))
    (tmp_path / "m.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    found = rows(tmp_path / "m.jsonl.gz")
    assert len(found) > 100
    assert [told for told in refusals(found) if told][-1][0] == "file"
    for name in ("m.csv.gz", "bad.jsonl.gz", "bad.parquet"):
        (tmp_path / name).write_bytes(b"PAR1 not really")
        ((field, reason),) = [told for told in refusals(rows(tmp_path / name)) if told]
        assert field == "file"
        assert reason.startswith("file must be readable to its end (")
        assert reason.endswith("Write it again by another name")
    pq.write_table(pa.Table.from_pylist(MESSAGES * 20_000), tmp_path / "m.parquet")
    whole = (tmp_path / "m.parquet").read_bytes()
    (tmp_path / "m.parquet").write_bytes(b"\0" * 60_000 + whole[60_000:])
    assert (refusals(rows(tmp_path / "m.parquet"))[-1] or ("",))[0] == "file"


def test_a_file_that_cannot_be_opened_is_an_error_and_no_reject(tmp_path: Path) -> None:
    for name in ("gone.jsonl", "gone.csv.gz", "gone.parquet", "gone.geojson"):
        file = SourceFile(str(tmp_path / name), "messages", format_of(name) or "")
        with pytest.raises(SetupError, match=r"gone\.\S+ cannot be opened on host \S+: .*Every host must be able to"):
            list(read_file(file, SIDES, NUMBERS))


def test_csv_rows_that_are_malformed(tmp_path: Path) -> None:
    text = 'id,lon,lat,text\n1,0,0,ok\n2,0,0\n3,0,0,"never closed\n4,0,0,fine\n5,x,0,east\n6,0,0,"a" b\nz,0,0,id\n'
    (tmp_path / "m.csv").write_text(text)
    found = rows(tmp_path / "m.csv")
    reasons = [told and told[1] for told in refusals(found)]
    assert reasons[:5] == [
        None, "row must have 4 values, as the header has, got 3", "row must close its quotes", None,
        "lon must be a number, got 'x'",
    ]  # fmt: skip
    assert str(reasons[5]).startswith("row must be CSV: ")
    assert reasons[6] == "id must be an integer, as the first ids of messages are, got 'z'"
    assert found[2]["raw"] == '3,0,0,"never closed'


def test_odd_parquet_is_refused_row_by_row(tmp_path: Path) -> None:
    place = {"lon": [0.0, 0.0], "lat": [0.0, 0.0], "text": ["a", "b"]}
    pq.write_table(pa.table({"id": pa.array([1, 2**63 + 5], pa.uint64()), **place}), tmp_path / "u.parquet")
    found = rows(tmp_path / "u.parquet")
    assert [row["id"] for row in found] == [1, None]
    assert (refusals(found)[1] or ("",))[0] == "id"
    twice = pa.table([*pa.table({"id": [1, 2], **place}).columns, pa.array(["c", "d"])], names=["id", *place, "text"])
    pq.write_table(twice, tmp_path / "d.parquet")
    assert [(told or ("",))[0] for told in refusals(rows(tmp_path / "d.parquet"))] == ["text", "text"]
    far = pa.array([2**62, 5_000_000], pa.timestamp("us"))
    pq.write_table(pa.table({"id": [1, 2], **place, "ts": far}), tmp_path / "t.parquet")
    found = rows(tmp_path / "t.parquet")
    assert [row["ts"] for row in found] == [2**62 // 1000, 5_000]
    days = pa.array([2**31 - 1, 1], pa.date32())
    pq.write_table(pa.table({"id": [1, 2], **place, "ts": days, "when": days}), tmp_path / "w.parquet")
    assert [row["ts"] for row in rows(tmp_path / "w.parquet")] == [(2**31 - 1) * 86_400_000, 86_400_000]
    pq.write_table(pa.table({"id": [1], "lon": ["1"], "lat": [0.0], "text": [""]}), tmp_path / "n.parquet")
    assert (refusals(rows(tmp_path / "n.parquet"))[0] or ("",))[0] == "lon"


def test_times_of_every_form(tmp_path: Path) -> None:
    at = dt.datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=dt.UTC)
    message = {"id": 1, "lon": 1.0, "lat": 2.0, "text": "x"}
    lines(tmp_path / "m.jsonl", [{**message, "ts": at.isoformat(), "expires": "1970-01-02"}])
    (tmp_path / "m.csv").write_text(f"id,lon,lat,text,ts,expires\n1,1,2,x,{at.isoformat()},1970-01-02\n")
    times = {"ts": pa.array([at], pa.timestamp("us", "Asia/Tokyo")), "expires": pa.array([1], pa.date32())}
    pq.write_table(pa.table({**{name: [value] for name, value in message.items()}, **times}), tmp_path / "m.parquet")
    for name in ("m.jsonl", "m.csv", "m.parquet"):
        (row,) = rows(tmp_path / name)
        assert (row["refused"], row["ts"], row["expires"]) == (None, -1, 86_400_000), name


def test_folders_are_searched_and_unfinished_files_left(tmp_path: Path) -> None:
    names = (
        "b.jsonl",
        "a/x.csv",
        ".hidden.jsonl",
        "_temporary/y.jsonl",
        "c.jsonl.tmp",
        "notes.txt",
        "A.PARQUET",
        "out/z.csv",
    )
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    for root in (str(tmp_path), tmp_path.as_uri()):
        files = find_files(
            [Input(root, "messages"), Input(str(tmp_path / "b.jsonl"), "messages")], [str(tmp_path / "out")]
        )
        found = [os.path.relpath(file.path.removeprefix("file://"), tmp_path) for file in files]
        assert [name for name in found if name != "out/z.csv"][:3] == ["A.PARQUET", "a/x.csv", "b.jsonl"]
    assert "out/z.csv" not in [
        os.path.relpath(f.path, tmp_path)
        for f in find_files([Input(str(tmp_path), "messages")], [str(tmp_path / "out")])
    ]


def test_paths_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    for nowhere in (str(tmp_path / "nowhere"), (tmp_path / "nowhere").as_uri()):
        with pytest.raises(InvalidInput, match="messages must be a file or folder that exists, got ") as refused:
            find_files([Input(nowhere, "messages")])
        assert refused.value.value == nowhere
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InvalidInput, match=r"events must end in one of \.jsonl"):
        find_files([Input(str(tmp_path / "notes.txt"), "events")])
    assert find_files([Input(str(tmp_path / "notes.txt"), "events", "jsonl")])[0].format == "jsonl"
    assert format_of("x.parquet.gz") is None
    with pytest.raises(InvalidInput, match="messages must be a URI that can be listed here"):
        find_files([Input("nonsense://x/y", "messages")])
    with pytest.raises(InvalidInput, match="role must be one of messages, subscriptions, events, got 'posts'"):
        find_files([Input(str(tmp_path), "posts")])


def test_a_file_has_one_role(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", MESSAGES)
    (tmp_path / "link.jsonl").symlink_to(path)
    with pytest.raises(InvalidInput, match="events must not be given as messages too, got ") as refused:
        find_files([Input(str(tmp_path), "messages"), Input(str(tmp_path / "link.jsonl"), "events")])
    assert refused.value.value == str(tmp_path / "link.jsonl")


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    for given in (tmp_path, tmp_path / "pipe.jsonl"):
        with pytest.raises(
            InvalidInput, match=r"messages must be a file, not a pipe, socket or device: .* move it out"
        ):
            find_files([Input(str(given), "messages")])


def test_types_of_ids_by_the_first_rows(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("id,lon,lat,text\n1,0,0,a\n007,0,0,b\n")
    pq.write_table(pa.Table.from_pylist(MESSAGES), tmp_path / "m.parquet")
    lines(tmp_path / "e.jsonl", ["{broken", {"lon": 1}, {"id": "x", "lon": 1}, {"id": 5, "kind": "topk"}])
    lines(tmp_path / "f.geojsonl", [{"type": "Feature", "properties": {"id": 4}}])
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    found = {
        name: first_ids(find_files([Input(str(tmp_path / name), role)])[0])
        for name, role in (
            ("m.csv", "messages"), ("m.parquet", "messages"), ("e.jsonl", "events"), ("f.geojsonl", "messages"),
            ("bad.parquet", "messages"),
        )
    }  # fmt: skip
    assert found == {
        "m.csv": {"messages": "string"}, "m.parquet": {"messages": "bigint"},
        "e.jsonl": {"messages": "string", "subscriptions": "bigint"}, "f.geojsonl": {"messages": "bigint"},
        "bad.parquet": {},
    }  # fmt: skip


def test_files_are_dealt_out_by_size() -> None:
    files = [SourceFile(str(i), "messages", "csv", size) for i, size in enumerate((9, 1, 1, 7, 3))]
    assert sorted(sum(file.size for file in group) for group in grouped(files, 2)) == [10, 11]
    assert len(grouped(files)) == 5


def test_frames_of_files(spark: Any, tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [*MESSAGES, "{broken"])
    lines(tmp_path / "b.jsonl", [{"id": "ann", "kind": "topk", "lon": 0, "lat": 0, "keywords": ["fire"]}])
    files = find_files(
        [Input(str(tmp_path / "a.jsonl"), "messages"), Input(str(tmp_path / "b.jsonl"), "subscriptions")]
    )
    assert id_types(files) == IdTypes("bigint", "string")
    frames = batch_frames(spark, files)
    assert sorted((row.position, row.id, row.refused is None) for row in frames.messages.collect()) == [
        (1, 1, True), (2, 2, True), (3, 3, True), (4, None, False),
    ]  # fmt: skip
    (ann,) = frames.subscriptions.collect()
    assert (ann.event, ann.id, ann.keywords, ann.position) == ("subscribe", "ann", "fire", 1)
    empty = batch_frames(spark, files[:1], IdTypes("bigint", "bigint")).subscriptions
    assert (empty.count(), dict(empty.dtypes)["id"]) == (0, "bigint")
    (tmp_path / "b.jsonl").unlink()
    with pytest.raises(Exception, match=r"b\.jsonl cannot be opened on host"):
        batch_frames(spark, files, IdTypes("bigint", "string")).subscriptions.collect()


def test_values_of_a_stream_become_rows_as_lines_do(spark: Any) -> None:
    good = json.dumps({"id": "m", "lon": 0, "lat": 0, "text": "x"}).encode()
    ann = json.dumps({"id": "ann", "kind": "topk", "lon": 0, "lat": 0, "keywords": ["fire"]}).encode()
    values = [good, None, b"{broken", b'{"id": "\xff"}', ann, b"7"]
    rows = [(value, "posts", f"5-{n}") for n, value in enumerate(values)]
    frame = spark.createDataFrame(rows, "value binary, stream string, id string")
    messages = value_frame(frame, "messages", "events").orderBy("position").collect()
    assert [(row.source, row.position - (5 << 20), row.id) for row in messages] == [
        ("posts", 0, "m"), ("posts", 1, None), ("posts", 2, None), ("posts", 3, None), ("posts", 5, None),
    ]  # fmt: skip
    fields = [row.refused and row.refused.field for row in messages]
    assert fields == [None, "value", "row", "row", "row"]
    assert [row.id for row in value_frame(frame, "subscriptions", "events").collect()] == ["ann"]
    kafka = frame.selectExpr("value", "'t' topic", "3 partition", "7L offset").limit(1)
    assert [(row.source, row.position) for row in value_frame(kafka, "messages", "messages").collect()] == [("t/3", 7)]
    with pytest.raises(InvalidInput, match="role must be messages or events, got 'subscriptions'"):
        value_frame(frame, "messages", "subscriptions")
