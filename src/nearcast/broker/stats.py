"""Sizes, counts of work and bytes of everything that a broker holds."""

from __future__ import annotations

from typing import Any

from nearcast.broker.registry import Registry
from nearcast.broker.snapshots.field_references import are_field_keys
from nearcast.columns.subscription_tables import PointTable, WithinTable
from nearcast.engines.contract import EngineContext, Stats
from nearcast.window.live import UNSET


def stats(
    tables: dict[str, WithinTable | PointTable], engines: dict[str, Stats], registry: Registry, context: EngineContext
) -> dict[str, Any]:
    """What `Broker.stats` tells; tables and the engines' own statistics by kind."""
    live, keys = context.live, context.vocabulary.keys.layout
    n_keys = int(are_field_keys(keys.entries[: context.vocabulary.capacity], keys.arena).sum())
    n_bytes = {
        "subscriptions": sum(table.nbytes for table in tables.values()) + sum(e["bytes"] for e in engines.values()),
        "subscription ids": registry.nbytes,
        "messages": live.nbytes,
        "words": context.vocabulary.nbytes,
    }
    return {
        "subscriptions": {**{kind: len(table) for kind, table in tables.items()}, "all": len(registry)},
        "messages": {
            "live": len(live.table),
            "sequence": live.last,
            "late": live.n_late,
            "withdrawn": live.n_withdrawn,
        },
        "clock": None if live.clock == UNSET else live.clock,
        "words": len(context.vocabulary) - n_keys,
        "fields": {"names and values": n_keys, "conditions": {kind: len(t.conditions) for kind, t in tables.items()}},
        "bytes": n_bytes,
        "bytes per subscription": n_bytes["subscriptions"] / max(1, len(registry)),
        "bytes per live message": n_bytes["messages"] / max(1, len(live.table)),
        "engines": engines,
        "index": live.index.stats(),
    }
