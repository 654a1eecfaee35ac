"""Frames of any shape are read as they were meant, or refused by the name of the column; bad rows are rejects."""

from __future__ import annotations

import types
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import nearcast as nc
import nearcast.spark as ns
from spark.scenes import SPACE

WITHIN = "id string, kind string, region string, keywords string"


def told(spark: Any, ddl: str = "id bigint, lon double, lat double, text string", *rows: Any) -> Any:
    return spark.createDataFrame(list(rows), ddl)


def test_ids_times_words_and_regions_of_other_types_are_taken(spark: Any) -> None:
    at = datetime(2026, 1, 1, 0, 0, 0, 1_999, tzinfo=UTC)
    ddl = "id int, lon int, lat float, keywords string, ts timestamp, other map<string,string>"
    messages = told(spark, ddl, (7, 1, 1.0, "Ant bee", at, {"a": "b"}), (8, 9, 1.0, "ant", None, None))
    region = "struct<type:string,coordinates:array<double>,radius:double>"
    ddl = f"id smallint, kind string, region {region}, keywords array<string>"
    asked = told(spark, ddl, (3, "within", ("Circle", [1.0, 1.0], 2.0), ["ant"]))
    answers = ns.answers(messages, asked, space=SPACE)
    (found,) = ns.updates(answers).collect()
    assert (found.subscription, found.message, found.sign) == (3, 7, "+")
    assert found.ts == 1_767_225_600_001
    assert [field.dataType.simpleString() for field in answers.schema.fields[1:3]] == ["smallint", "int"]


def test_scores_that_fade(spark: Any) -> None:
    assert ns.SUBSCRIPTIONS["decay"].dataType.simpleString() == "double"
    ddl = "id bigint, lon double, lat double, text string, ts bigint"
    messages = told(spark, ddl, (1, 1.0, 1.0, "ant", 0), (2, 1.0, 1.0, "ant", 10_000))
    ddl = "id bigint, kind string, lon double, lat double, keywords string, k int, decay int"
    asked = told(spark, ddl, (7, "topk", 1.0, 1.0, "ant", 1, 5))
    answers = ns.answers(messages, asked, space=SPACE, window=nc.Window(count=9))
    found = sorted((row.ts, row.sign, row.message, row.score) for row in ns.updates(answers).collect())
    assert found == [(0, "+", 1, 1.0), (10_000, "+", 2, 1.0), (10_000, "-", 1, 0.25)]


def test_rows_that_are_not_utf8_are_rejects(spark: Any) -> None:
    messages = spark.sql(
        "select cast(x'ff61' as string) id, 1d lon, 1d lat, 'ant' text"
        " union all select 'b', 1d, 1d, cast(x'61ff' as string)"
        " union all select 'c', 1d, 1d, 'ant' union all select null, 1d, 1d, 'ant'"
    )
    asked = spark.sql(
        "select 's' id, 'within' kind, '[0, 0, 2, 2]' region, 'ant' keywords"
        " union all select cast(x'80' as string), 'within', '[0, 0, 2, 2]', 'ant'"
        " union all select 't', 'within', '[0, 0, 2, 2]', cast(x'c3' as string)"
    )
    rows = ns.answers(messages, asked, space=SPACE, shards=2).collect()
    assert [(row.subscription, row.message) for row in rows if row.outcome == "update"] == [("s", "c")]
    refused = {(row.field, row.subscription or row.message) for row in rows if row.outcome == "reject"}
    assert refused == {("id", "\\udcffa"), ("text", "b"), ("id", None), ("id", "\\udc80"), ("keywords", "t")}


def test_rows_that_readers_refused_are_rejects(spark: Any) -> None:
    ddl = "id bigint, lon double, lat double, text string, source string, position bigint, raw string,"
    messages = told(
        spark,
        ddl + " refused struct<field:string,reason:string>",
        (None, None, None, None, "a.json", 3, "{oops", ("row", "row must be JSON")),
        (1, 1.0, 1.0, "ant", "a.json", 4, None, None),
    )
    asked = told(spark, WITHIN, ("s", "within", "[0, 0, 2, 2]", "ant"))
    answers = ns.answers(messages, asked, space=SPACE)
    (row,) = ns.rejects(answers).collect()
    assert (row.source, row.position, row.row, row.field, row.reason) == (
        "a.json",
        3,
        "{oops",
        "row",
        "row must be JSON",
    )
    assert ns.updates(answers).count() == 1


def test_frames_that_cannot_be_read_are_refused_at_once(spark: Any, tmp_path: Path) -> None:
    good, asked = told(spark), told(spark, WITHIN)
    plain = "id bigint, lon double, lat double, text string"
    for messages, subscriptions, reason in (
        (told(spark, "id bigint, lon double, text string"), asked, "messages must have a column lat"),
        (told(spark, "id bigint, lon double, lat double"), asked, "must have a column text or keywords"),
        (told(spark, plain.replace("bigint", "double")), asked, r"messages.id must be a column of strings or whole"),
        (told(spark, plain.replace("lat double", "lat string")), asked, r"messages.lat must be a column of numbers"),
        (told(spark, plain + ", ts string"), asked, r"messages.ts must be a column of epoch milliseconds"),
        (told(spark, plain + ", id bigint"), asked, "must have each column once"),
        (good, told(spark, WITHIN + ", radius double"), "only columns that subscriptions have"),
        (good, told(spark, WITHIN + ", k string"), r"subscriptions.k must be a column of whole numbers"),
        ([1], asked, r"messages must be a DataFrame of Spark.*, got 'list'"),
    ):
        with pytest.raises(nc.InvalidInput, match=reason):
            ns.answers(messages, subscriptions, space=SPACE)


def test_settings_that_cannot_be_used_are_refused_at_once(spark: Any, tmp_path: Path) -> None:
    good, asked = told(spark), told(spark, WITHIN)
    (tmp_path / "file").write_text("")
    for options, reason in (
        ({"shards": 0}, "shards must be >= 1"),
        ({"threads": 0}, "threads must be >= 1"),
        ({"window": 3}, "window must be a Window"),
        ({"weights": 3}, "weights must be Weights"),
        ({"store": "nothing://here"}, "store must be a URI"),
        ({"store": (tmp_path / "file" / "inside").as_uri()}, "store must be a place that can be written"),
    ):
        with pytest.raises(nc.InvalidInput, match=reason):
            ns.answers(good, asked, space=SPACE, **options)
    (tmp_path / "nearcast-store.json").write_text('{"format": 0}')
    with pytest.raises(nc.errors.SetupError, match="has format 0"):
        ns.answers(good, asked, space=SPACE, store=tmp_path.as_uri())
    (tmp_path / "nearcast-store.json").write_text('{"form')
    with pytest.raises(nc.errors.SetupError, match=r"nearcast-store\.json is damaged\. Delete it if"):
        ns.answers(good, asked, space=SPACE, store=tmp_path.as_uri())
    stream = spark.readStream.format("rate").load().selectExpr("value id", "1d lon", "1d lat", "'a' text")
    with pytest.raises(nc.InvalidInput, match="store must be a URI"):
        ns.answers(stream, asked, space=SPACE)
    with pytest.raises(nc.InvalidInput, match="messages must be a streaming frame"):
        ns.answers(good, stream.selectExpr("id", "'within' kind"), space=SPACE)


def test_configure_says_what_is_missing_and_changes_nothing(spark: Any) -> None:
    before = spark.conf.getAll if isinstance(spark.conf.getAll, dict) else spark.conf.getAll()
    assert ns.configure(spark) == []
    name = "spark.sql.shuffle.partitions"
    own = spark.conf.get(name)
    spark.conf.set(name, 200)
    assert [sentence[:36] for sentence in ns.configure(spark)] == ["spark.sql.shuffle.partitions is 200:"]
    spark.conf.set(name, own)
    context = types.SimpleNamespace(pythonExec="/bin/false")
    other = types.SimpleNamespace(conf=spark.conf, sparkContext=context)
    assert [sentence[:48] for sentence in ns.configure(other)] == ["Tasks run /bin/false, which has no nearcast: set"]
    assert before == (spark.conf.getAll if isinstance(spark.conf.getAll, dict) else spark.conf.getAll())


def test_fields_may_be_structs_or_json(spark: Any) -> None:
    fields = "struct<price:double,tags:array<string>>"
    ddl = f"id bigint, lon double, lat double, text string, fields {fields}"
    structs = [(1.0, ["new"]), (1.0, None), None, (float("nan"), None)]
    rows = [(at, 1.0, 1.0, "ant", struct) for at, struct in enumerate(structs)]
    asked = spark.sql("select 's' id, 'within' kind, '[0, 0, 2, 2]' region, 'ant' keywords, \"tags = 'new'\" where")
    answers = ns.answers(told(spark, ddl, *rows), asked, space=SPACE).collect()
    assert [(row.message, row.field) for row in answers] == [(0, None), (3, "fields.price")]
    refused = told(spark, ddl, *rows).selectExpr("id", "lon", "lat", "text", "struct(current_date() day) fields")
    with pytest.raises(nc.InvalidInput, match=r"messages\.fields\.day must be a column of numbers"):
        ns.answers(refused, asked, space=SPACE)


def test_what_no_window_or_no_list_allows_is_a_reject(spark: Any) -> None:
    ddl = "event string, id bigint, lon double, lat double, text string"
    messages = told(spark, ddl, ("update", 1, 1.0, 1.0, "ant"), ("retract", 1, None, None, None))
    asked = told(
        spark, WITHIN, *((f"s{at}", "within", "[0, 0, 2, 2]", word) for at, word in enumerate(("[ant", "[1]")))
    )
    answers = ns.rejects(ns.answers(messages, asked, space=SPACE)).collect()
    assert sorted((row.event or "subscribe", row.field) for row in answers) == [
        ("retract", "window"), ("subscribe", "keywords"), ("subscribe", "keywords"), ("update", "window"),
    ]  # fmt: skip
