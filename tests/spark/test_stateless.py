"""`match` finds what a broker without a window would tell of each message; `fit_weights` counts as `Weights` does."""

from __future__ import annotations

import json
from typing import Any

import pytest

import nearcast as nc
import nearcast.spark as ns
from spark.scenes import CONTROLS, MESSAGES, SPACE, controls_of, frame, messages_of


def test_match_finds_what_a_broker_finds(spark: Any) -> None:
    kept = {"id", "kind", "lon", "lat", "region", "keywords", "delta", "tau", "where"}
    asked = [
        row
        for row in controls_of(2, 60, 60_000)
        if row.get("kind") in ("within", "similar") and row.get("where") != "price <"
    ]
    asked = [{k: v for k, v in row.items() if k in kept} | {"id": f"s{at}"} for at, row in enumerate(asked)]
    told = messages_of(2, 300)
    weights = ns.fit_weights(frame(spark, told, MESSAGES), "text")
    answers = ns.match(
        frame(spark, told, MESSAGES), frame(spark, asked, CONTROLS), space=SPACE, weights=weights
    ).collect()
    broker = nc.Broker(SPACE, weights=nc.Weights.fit([row.get("text") for row in told]))
    for row in asked:
        region = {"region": [float(side) for side in row["region"][1:-1].split(",")]} if "region" in row else {}
        words = {"keywords": json.loads(row["keywords"])} if row["keywords"].startswith("[") else {}
        assert not broker.subscribe_many([row | region | words]).rejects
    expected = []
    for row in told:
        plain = {k: v for k, v in row.items() if v is not None and k not in ("expires", "position")}
        updates = broker.publish([plain])
        expected += [(u.subscription, u.message, u.score, row["ts"]) for u in updates]
    found = [(row.subscription, row.message, row.score, row.ts) for row in answers if row.outcome == "update"]
    assert sorted(found) == sorted(expected)
    assert len(found) > 100


def test_weights_are_those_of_one_corpus(spark: Any) -> None:
    texts = ["Ramen today", "ramen, ramen!", None, "", "sushi é"]
    rows = spark.createDataFrame([(text,) for text in texts], "text string").repartition(3)
    counted, fitted = ns.fit_weights(rows), nc.Weights.fit(texts)
    assert counted.n_texts == fitted.n_texts
    for word in ("ramen", "today", "sushi", "é", "pizza"):
        assert counted.weight(word) == fitted.weight(word)


def test_what_match_cannot_do_is_refused(spark: Any) -> None:
    told = spark.createDataFrame([(1, 0.0, 0.0, "a")], "id bigint, lon double, lat double, text string")
    for row, reason in (
        (("a", "topk", 1.0, 1.0, None, None), "kind must be one of within, similar"),
        (("a", "similar", 1.0, 1.0, 9, None), "expires must be left out"),
        (("a", "similar", 1.0, None, None, None), "lat is required"),
        (("a", "similar", 1.0, 1.0, None, "move"), "event must be subscribe"),
    ):
        ddl = "id string, kind string, lon double, lat double, expires bigint, event string"
        with pytest.raises(nc.InvalidInput, match=reason):
            ns.match(told, spark.createDataFrame([row], ddl), space=SPACE)


def test_match_takes_an_analyzer(spark: Any) -> None:
    told = spark.createDataFrame(
        [(1, 0.0, 0.0, "The burning fires"), (2, 0.0, 0.0, "a fire-burn")],
        "id bigint, lon double, lat double, text string",
    )
    rows = [("a", '"burn fire"'), ("b", "burni*"), ("c", "FIRED")]
    asked = spark.createDataFrame(
        [(*row, "within", "[-1, -1, 1, 1]") for row in rows], "id string, keywords string, kind string, region string"
    )
    answers = ns.match(told, asked, space=SPACE, analyzer=nc.Analyzer("english", "english")).collect()
    assert sorted((row.subscription, row.message) for row in answers) == [("a", 1), ("b", 1), ("c", 1), ("c", 2)]
