"""Phrases and prefixes behind the broker's door: which messages have an order of words that phrases can look at."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import nearcast as nc

SPACE = nc.Space((0.0, 0.0, 8.0, 8.0), metric="euclidean")
BOX = nc.Box(0.0, 0.0, 8.0, 8.0)


def publish(broker: nc.Broker, form: str, *texts: str) -> list[tuple[str, int]]:
    """What is told about messages with these texts, which have their numbers as ids."""
    told = []
    if form == "one by one":
        for id, text in enumerate(texts):
            told += list(broker.publish(nc.Message(id, 1.0, 1.0, text)))
    else:
        n = len(texts)
        told += list(broker.publish(pa.table({"id": range(n), "lon": [1.0] * n, "lat": [1.0] * n, "text": texts})))
    return [(update.subscription, update.message) for update in told]


@pytest.mark.parametrize("form", ["one by one", "batch"])
@pytest.mark.parametrize("analyzer", [None, nc.Analyzer(stemmer="english")])
def test_without_a_window_order_is_kept_from_the_first_phrase_on(
    form: str, analyzer: nc.Analyzer | None, tmp_path: Path
) -> None:
    broker = nc.Broker(SPACE, analyzer=analyzer)
    broker.subscribe("near", nc.Nearest(1.0, 1.0, "york", k=100))  # keeps messages, which have no order
    publish(broker, form, "new york", "york is new")
    table = broker.parts.context.live.table
    assert not table.keeps_order
    assert not table.state()["order_rows"]["n"].any()

    broker.subscribe("phrase", nc.Within(BOX, '"new york"'))
    broker.subscribe("prefix", nc.Within(BOX, "burni* OR york*"))
    assert table.keeps_order
    told = publish(broker, form, "new york", "york is new", "a new york", "burning", "burned")
    assert [(who, id) for who, id in told if who != "near"] == [
        ("phrase", 0), ("prefix", 0), ("prefix", 1), ("phrase", 2), ("prefix", 2), ("prefix", 3),
    ]  # fmt: skip

    broker.snapshot(tmp_path / "broker")
    restored = nc.Broker.restore(tmp_path / "broker")
    for one in (broker, restored):
        one.unsubscribe_many(["phrase", "prefix"])
        one.subscribe("again", nc.Within(BOX, '"york new"'))
        assert [told for told in publish(one, form, "york new", "new york") if told[0] == "again"] == [("again", 0)]
        one.check()


def test_with_a_window_a_phrase_looks_at_what_came_before_it() -> None:
    broker = nc.Broker(SPACE, window=nc.Window(count=10))
    publish(broker, "batch", "new york", "york is new")
    assert [update.message for update in broker.subscribe("phrase", nc.Within(BOX, '"new york"'))] == [0]
