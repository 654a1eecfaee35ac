"""The best live messages of a subscription, by the message index and by trying every message."""

from __future__ import annotations

import os

import pytest
from contract.contenders import Judge, Town

import nearcast as nc
from nearcast.engines.exact import NEAREST, TOPK
from nearcast.engines.oracle.best_live import best_live

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
