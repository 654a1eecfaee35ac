"""The order in which subscriptions are evaluated again."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

import nearcast as nc
from nearcast.engines.exact import NEAREST, TOPK
from nearcast.engines.kept.refill import sort_for_locality
from nearcast.window.index.index import frame_of


def test_searches_that_read_the_same_follow_one_another() -> None:
    """Of TopK by the two most frequent words, then by place; where place matters more, and of Nearest, by place."""
    broker = nc.Broker(nc.Space((0, 0, 16, 16), metric="euclidean"), nc.Window(), nc.Weights.fit(["a b c", "a b", "a"]))
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
        order = sort_for_locality(kind, layout, slots, frame, broker.parts.context.vocabulary.idf).tolist()
        if kind == NEAREST:
            assert order == np.argsort(places).tolist()
            continue
        assert order[:2] == [7, 6]
        words = [{0: "ac", 1: "b", 2: "ab", 3: "bc", 4: "ac", 5: "b"}[slot] for slot in order[2:]]
        assert sum(a != b for a, b in pairwise(words)) == len(set(words)) - 1
        assert order.index(4) < order.index(0)
        assert order.index(5) < order.index(1)
