"""Files of every format become the same events, and what cannot be read is counted, not lost."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast.cluster.schema import EVENTS, PUBLISH, REFUSED, SUBSCRIBE
from nearcast.cluster.sources import Input, find_files, format_of, read_file, read_texts
from nearcast.errors import InvalidInput

MESSAGES = [
    {"id": 1, "lon": 1.5, "lat": 2.0, "text": "Fire, fire!", "ts": 10, "expires": None},
    {"id": 2, "lon": -1.0, "lat": 0.25, "text": 'said "hi"\nthen left', "ts": 11, "expires": 99},
    {"id": 3, "lon": 0.0, "lat": 0.0, "text": "", "ts": 12},
]
CSV = 'id,lon,lat,text,ts,expires\n1,1.5,2,"Fire, fire!",10,\n2,-1,0.25,"said ""hi""\nthen left",11,99\n3,0,0,,12,\n'
SHOWN = ("event", "number", "name", "lon", "lat", "text", "keywords", "ts", "expires", "spec")


def rows(path: Path, role: str = "messages", format_: str | None = None) -> list[dict[str, Any]]:
    file = find_files([Input(str(path), role, format_)])[0]
    tables = list(read_file(file, 0))
    assert all(table.schema == EVENTS for table in tables)
    return [row for table in tables for row in table.to_pylist()]


def shown(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in SHOWN} for row in found]


def lines(path: Path, values: list[Any]) -> Path:
    path.write_text("".join((v if isinstance(v, str) else json.dumps(v)) + "\n" for v in values))
    return path


def test_all_formats_read_alike(tmp_path: Path) -> None:
    plain = lines(tmp_path / "m.jsonl", MESSAGES)
    (tmp_path / "m.csv").write_text(CSV)
    pq.write_table(pa.Table.from_pylist(MESSAGES), tmp_path / "m.parquet")
    (tmp_path / "m.ndjson.gz").write_bytes(gzip.compress(plain.read_bytes()))
    (tmp_path / "m.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    expected = shown(rows(plain))
    assert [row["event"] for row in expected] == [PUBLISH] * 3
    for name in ("m.csv", "m.parquet", "m.ndjson.gz", "m.csv.gz"):
        assert shown(rows(tmp_path / name)) == expected, name


def test_row_numbers_and_raw_text(tmp_path: Path) -> None:
    found = rows(lines(tmp_path / "m.jsonl", ["\ufeff" + json.dumps(MESSAGES[0]), "", "  ", "{broken", MESSAGES[1]]))
    assert [(row["row"], row["event"]) for row in found] == [(1, PUBLISH), (4, REFUSED), (5, PUBLISH)]
    assert found[1]["raw"] == "{broken"
    assert json.loads(found[2]["raw"]) == MESSAGES[1]
    (tmp_path / "m.csv").write_text(CSV)
    assert [row["row"] for row in rows(tmp_path / "m.csv")] == [2, 3, 5]


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_bytes(b'{"id": "\xff"}\n' + json.dumps(MESSAGES[0]).encode() + b"\r\n")
    first, second = rows(tmp_path / "m.jsonl")
    assert first["reason"] == "row must be UTF-8: invalid start byte at byte 9"
    assert first["raw"] == '{"id": "\\xff"}'
    assert second["event"] == PUBLISH
    (tmp_path / "m.csv").write_bytes(b"id,lon,lat,text\n1,0,0,caf\xe9\n2,0,0,caf\xc3\xa9\n")
    first, second = rows(tmp_path / "m.csv")
    assert (first["event"], first["field"], second["text"]) == (REFUSED, "text", "café")


def test_a_file_that_breaks_off_keeps_what_was_read(tmp_path: Path) -> None:
    packed = gzip.compress(b"".join(json.dumps({**MESSAGES[0], "id": i}).encode() + b"\n" for i in range(5_000)))
    (tmp_path / "m.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    found = rows(tmp_path / "m.jsonl.gz")
    assert len(found) > 100
    assert [row["event"] for row in found].count(REFUSED) in (1, 2)  # the last line may be cut, too
    assert found[-1]["field"] == "file"
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 not really")
    (refused,) = rows(tmp_path / "bad.parquet")
    assert (refused["field"], refused["reason"][:37]) == ("file", "file must be readable to its end: Par")


def test_csv_rows_that_are_malformed(tmp_path: Path) -> None:
    text = 'id,lon,lat,text\n1,0,0,ok\n2,0,0\n3,0,0,"never closed\n4,0,0,fine\n5,x,0,east\n6,0,0,"a" b\n'
    (tmp_path / "m.csv").write_text(text)
    found = rows(tmp_path / "m.csv")
    assert [row["event"] for row in found] == [PUBLISH, REFUSED, REFUSED, PUBLISH, REFUSED, REFUSED]
    reasons = [row["reason"] for row in found if row["reason"]]
    assert reasons[0] == "row must have 4 values, as the header has, got 3"
    assert reasons[1] == "row must close its quotes"
    assert reasons[2] == "lon must be a number, got 'x'"
    assert reasons[3].startswith("row must be CSV: ")
    assert [row["raw"] for row in found][2] == '3,0,0,"never closed'


def test_csv_ids_are_numbers_only_if_all_are(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("id,lon,lat,text\n1,0,0,a\n007,0,0,b\n")
    assert [row["name"] for row in rows(tmp_path / "m.csv")] == ["1", "007"]
    mixed = "event,id,kind,region,keywords,lon,lat,text,ts\n"
    mixed += 'subscribe,ann,within,"[0,0,1,1]",fire OR smoke,,,,1\npublish,7,,,,0,0,fire,2\n'
    (tmp_path / "e.csv").write_text(mixed)
    first, second = rows(tmp_path / "e.csv", "events")
    assert (first["event"], first["name"]) == (SUBSCRIBE, "ann")
    assert (second["event"], second["number"]) == (PUBLISH, 7)


def test_subscriptions_in_csv_and_parquet(tmp_path: Path) -> None:
    header = "id,kind,min_lon,min_lat,max_lon,max_lat,lon,lat,keywords,k,alpha,backfill\n"
    (tmp_path / "s.csv").write_text(header + 'a,within,0,0,1,1,,,"[""x"", ""y""]",,,\nb,topk,,,,,1,2,x y,3,0.5,false\n')
    table = [
        {
            "id": "a",
            "kind": "within",
            "min_lon": 0.0,
            "min_lat": 0.0,
            "max_lon": 1.0,
            "max_lat": 1.0,
            "keywords": "x y",
        },
        {"id": "b", "kind": "topk", "lon": 1.0, "lat": 2.0, "keywords": "x y", "k": 3, "alpha": 0.5, "backfill": False},
    ]
    columns = {name: [row.get(name) for row in table] for row in table for name in row}
    pq.write_table(pa.table(columns), tmp_path / "s.parquet")
    for name in ("s.csv", "s.parquet"):
        found = rows(tmp_path / name, "subscriptions")
        assert [row["event"] for row in found] == [SUBSCRIBE, SUBSCRIBE], found
        assert json.loads(found[1]["spec"])["backfill"] is False


def test_parquet_columns_of_other_types(tmp_path: Path) -> None:
    at = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    table = pa.table({"id": pa.array([1], pa.int32()), "lon": [1], "lat": [2], "keywords": [["x"]], "ts": [at]})
    pq.write_table(table, tmp_path / "m.parquet")
    (row,) = rows(tmp_path / "m.parquet")
    assert (row["number"], row["lon"], row["keywords"], row["ts"]) == (1, 1.0, ["x"], 1_704_067_200_000)
    pq.write_table(
        pa.table({"id": ["a", "b"], "lon": ["1", "2"], "lat": [0, 0], "text": ["", ""]}), tmp_path / "n.parquet"
    )
    assert [row["field"] for row in rows(tmp_path / "n.parquet")] == ["lon", "lon"]
    pq.write_table(pa.table({"id": ["a"], "lon": [1.0], "text": ["x"]}), tmp_path / "o.parquet")
    (row,) = rows(tmp_path / "o.parquet")
    assert row["reason"] == "lat is required, got None"
    assert json.loads(row["raw"]) == {"id": "a", "lon": 1.0, "text": "x"}


def test_folders_are_searched_and_unfinished_files_left(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a/x.csv", ".hidden.jsonl", "_temporary/y.jsonl", "c.jsonl.tmp", "notes.txt", "A.PARQUET"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    files = find_files([Input(str(tmp_path), "messages"), Input(str(tmp_path / "b.jsonl"), "events")])
    assert [Path(file.path).relative_to(tmp_path).as_posix() for file in files] == ["A.PARQUET", "a/x.csv", "b.jsonl"]
    assert {file.role for file in files} == {"messages"}


def test_paths_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="messages must be a file or folder that exists, got ") as refused:
        find_files([Input(str(tmp_path / "nowhere"), "messages")])
    assert refused.value.value == str(tmp_path / "nowhere")
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InvalidInput, match=r"events must end in one of \.jsonl"):
        find_files([Input(str(tmp_path / "notes.txt"), "events")])
    assert find_files([Input(str(tmp_path / "notes.txt"), "events", "jsonl")])[0].format == "jsonl"
    assert format_of("x.parquet.gz") is None


def test_texts_of_a_corpus(tmp_path: Path) -> None:
    feature = {"type": "Feature", "properties": {"text": "three"}}
    lines(tmp_path / "a.jsonl", [{"text": "one"}, "{broken", {"text": 5}, {"id": 1}, feature])
    (tmp_path / "b.csv").write_text("id,text\n1,two\n2,\n")
    pq.write_table(pa.table({"text": ["four", None]}), tmp_path / "c.parquet")
    pq.write_table(pa.table({"words": ["five"]}), tmp_path / "d.parquet")
    files = find_files([Input(str(tmp_path), "messages")])
    texts = [text for file in files for piece in read_texts(file) for text in piece.to_pylist()]
    assert texts == ["one", "three", "two", "", "four"]


def test_a_run_does_not_read_what_it_wrote(tmp_path: Path) -> None:
    for name in ("a.jsonl", "out/updates/b.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    files = find_files([Input(str(tmp_path), "messages")], [tmp_path / "out"])
    assert [Path(file.path).name for file in files] == ["a.jsonl"]


def test_times_of_every_form_in_files(tmp_path: Path) -> None:
    at = dt.datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=dt.UTC)
    message = {"id": 1, "lon": 1.0, "lat": 2.0, "text": "x"}
    lines(tmp_path / "m.jsonl", [{**message, "ts": at.isoformat(), "expires": "1970-01-02"}])
    (tmp_path / "m.csv").write_text(f"id,lon,lat,text,ts,expires\n1,1,2,x,{at.isoformat()},1970-01-02\n")
    times = {"ts": pa.array([at], pa.timestamp("us", "Asia/Tokyo")), "expires": pa.array([1], pa.date32())}
    pq.write_table(pa.table({**{name: [value] for name, value in message.items()}, **times}), tmp_path / "m.parquet")
    for name in ("m.jsonl", "m.csv", "m.parquet"):
        (row,) = rows(tmp_path / name)
        assert (row["event"], row["ts"], row["expires"]) == (PUBLISH, -1, 86_400_000), name


def test_the_expiry_of_a_subscription_is_passed_on_as_a_number(tmp_path: Path) -> None:
    ann = {"id": "ann", "kind": "topk", "lon": 1, "lat": 2, "keywords": "x"}
    (row,) = rows(
        lines(tmp_path / "s.jsonl", [{**ann, "expires": "1970-01-02T00:00:00Z", "ts": "1970-01-01"}]), "events"
    )
    assert (row["ts"], row["expires"], json.loads(row["spec"])["expires"]) == (0, 86_400_000, 86_400_000)
