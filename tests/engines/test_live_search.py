"""Live messages of `Within` and `Similar`, by the message index and by trying every message."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from contract.contenders import Judge, Town

import nearcast as nc
from nearcast.engines.live_search import matching_similar, matching_within

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
N_MESSAGES = 1500 if COMPILED else 60


@pytest.mark.parametrize("metric", ["euclidean", "haversine"])
def test_candidates_leave_out_no_match(metric: str) -> None:
    """Thresholds on text or place alone only filter: every extreme of delta and tau, every shape and word."""
    bounds = (0, 0, 16, 16)
    brokers = [kind(nc.Space(bounds, metric), nc.Window()) for kind in (nc.Broker, Judge)]
    town = Town(8)
    messages = list(town.messages(N_MESSAGES // 4))
    odd = [(180.0, 0.0), (-180.0, 4.0), (540.0, 1.0), (179.5, 89.0), (-179.5, -90.0), (8.0, 8.0)]
    messages += [nc.Message(10_000 + n, *place, "word0 word1", ts=10**6) for n, place in enumerate(odd)]
    queries: list[Any] = [
        nc.Similar(x, y, words, delta, tau, measure)
        for x, y in ((8.0, 8.0), (0.0, 0.0), (179.9, 0.5))
        for words in ("word0 word1", "word7", "nowhere")
        for delta in (0.0, 0.5, 1.0)
        for tau in (0.0, 0.5, 0.75, 1.0)
        for measure in ("weighted", "dice")
    ]
    boxes = [nc.Box(0, 0, 8, 8), nc.Box(8, 8, 8, 8), nc.Box(-1000, -90, 1000, 90), nc.Box(170, -10, 200, 10)]
    if metric == "haversine":
        boxes.append(nc.Box(170, -10, -170, 10))
    radius = 5.0 if metric == "euclidean" else 500_000.0
    regions = [*boxes, nc.Circle(8, 8, radius), nc.Circle(180, 0, radius), nc.Circle(0, 90, 3 * radius)]
    regions.append(nc.Polygon([(0, 0), (16, 0), (8, 16)]))
    queries += [
        nc.Within(region, words) for region in regions for words in ("word0", "word0 OR word3", "word1 NOT word0")
    ]
    for broker in brokers:
        broker.publish(messages)
        assert not broker.subscribe_many(enumerate(queries)).rejects
    for n, query in enumerate(queries):
        assert brokers[0].results(n) == brokers[1].results(n), query
    assert sum(bool(brokers[0].results(n)) for n in range(len(queries))) > len(queries) // 4


def test_what_is_found_is_in_order() -> None:
    broker = nc.Broker(nc.Space((0, 0, 8, 8), metric="euclidean"), nc.Window())
    broker.publish(nc.Message(n, n % 3, 0, "a b" if n % 2 else "a", ts=n) for n in range(9))
    broker.subscribe("w", nc.Within(nc.Box(0, 0, 8, 8), "a"))
    broker.subscribe("s", nc.Similar(0, 0, "a b", 0.5, 0.1, "overlap"))
    assert [id for id, _ in broker.results("w")] == list(range(8, -1, -1))
    scores = broker.results("s")
    assert scores == sorted(scores, key=lambda row: (-row[1], -row[0]))  # type: ignore[operator]
    context = broker.parts.context
    dense = np.zeros(context.vocabulary.idf.size)
    for find, kind, id in ((matching_within, 0, "w"), (matching_similar, 1, "s")):
        slot = broker.parts.registry.where(broker.parts.registry.find(id))[1]
        assert len(find(broker.parts.tables[kind].layout, slot, context, dense)[0]) == 9  # type: ignore[operator]
        assert not dense.any()
