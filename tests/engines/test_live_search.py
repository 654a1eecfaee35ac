from __future__ import annotations

import os
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from contract.contenders import Judge, Town

import nearcast as nc
from nearcast.engines.exact import NEAREST, TOPK
from nearcast.engines.kept.refill import side_by_side
from nearcast.engines.live_search import best_live, matching_similar, matching_within
from nearcast.window.index.index import frame_of

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
N_MESSAGES, N_QUERIES = (1500, 50) if COMPILED else (60, 6)


def filled(kind: type[nc.Broker], seed: int, window: nc.Window) -> tuple[nc.Broker, Town]:
    town = Town(seed)
    broker = kind(town.space, window, nc.Weights.fit([" ".join(town.some_words(6)) for _ in range(30)]))
    broker.publish(town.messages(N_MESSAGES))
    return broker, town


@pytest.mark.parametrize("window", [nc.Window(), nc.Window(count=700), nc.Window(age=5)], ids=repr)
def test_the_index_finds_what_trying_every_message_finds(window: nc.Window) -> None:
    """The same questions to the index and to the scan, now and as of an earlier moment."""
    brokers = [filled(kind, 4, window)[0] for kind in (nc.Broker, Judge)]
    town = Town(44)
    last, clock = brokers[0].parts.context.live.last, brokers[0].parts.context.live.clock
    moments = [(last, clock), (last - last // 10, clock - 500), (0, -(10**6))]
    for number in range(N_QUERIES):
        for position, kind in ((2, "topk"), (3, "nearest")):
            query = town.query(kind)
            for limit in (1, 7, 10**6):
                for at in moments:
                    found = []
                    for broker in brokers:
                        broker.subscribe(number, query)
                        slot = broker.parts.registry.where(broker.parts.registry.find(number))[1]
                        table = broker.parts.tables[position]
                        slots, ranks = best_live(
                            TOPK if kind == "topk" else NEAREST, table, slot, limit, broker.parts.context, *at
                        )
                        broker.unsubscribe(number)
                        found.append((broker.parts.context.live.table.ids.to_arrow(slots).to_pylist(), ranks.tolist()))
                    assert found[0] == found[1], (query, limit, at)
            if number % 4:
                break  # a quarter of the questions is asked of both kinds


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
    broker = nc.Broker(nc.Space((0, 0, 8, 8)), nc.Window())
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


def test_searches_that_read_the_same_follow_one_another() -> None:
    """Of TopK by the two most frequent words, then by place; where place matters more, and of Nearest, by place."""
    broker = nc.Broker(nc.Space((0, 0, 16, 16)), nc.Window(), nc.Weights.fit(["a b c", "a b", "a"]))
    frame = frame_of(broker.space)
    texts = ["c a", "b", "a b c", "b c", "a c", "b", "a b", "a b"]
    alphas = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.9, 0.8]
    places = [9.0, 1.0, 2.0, 3.0, 4.0, 0.5, 6.0, 5.0]  # along the lower edge, where the curve goes to the right
    slots = np.arange(len(texts), dtype=np.int32)
    for position, kind in ((2, TOPK), (3, NEAREST)):
        for number, text, alpha, x in zip(slots.tolist(), texts, alphas, places, strict=True):
            query = nc.TopK(x, 0.0, text, k=1, alpha=alpha) if kind == TOPK else nc.Nearest(x, 0.0, text, k=1)
            broker.subscribe(10 * position + number, query)
        layout = broker.parts.tables[position].layout
        order = side_by_side(kind, layout, slots, frame, broker.parts.context.vocabulary.idf).tolist()
        if kind == NEAREST:
            assert order == np.argsort(places).tolist()
            continue
        assert order[:2] == [7, 6]
        words = [{0: "ac", 1: "b", 2: "ab", 3: "bc", 4: "ac", 5: "b"}[slot] for slot in order[2:]]
        assert sum(a != b for a, b in pairwise(words)) == len(set(words)) - 1
        assert order.index(4) < order.index(0)
        assert order.index(5) < order.index(1)
