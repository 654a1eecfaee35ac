"""Compiles what a shard needs, by asking one of everything, so that workers find it compiled.

Kernels are compiled once per machine and version, which takes half a minute of one core. It is spent while Spark
starts, when a core is idle, and by one process instead of every worker.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import nearcast as nc
from nearcast.cluster.decode import Decoder
from nearcast.cluster.intake import ordered
from nearcast.cluster.shard import Shard

_RING = [[[0, 0], [2, 0], [2, 2], [0, 0]]]
_PLACE = {"lon": 1, "lat": 1, "keywords": "a b"}
_QUERIES = (
    {"kind": "within", "region": [0, 0, 2, 2], "keywords": "a OR (b AND NOT c)"},
    {"kind": "within", "region": {"type": "Circle", "coordinates": [1, 1], "radius": 9}, "keywords": ["a"]},
    {"kind": "within", "region": {"type": "Polygon", "coordinates": _RING}, "keywords": "a"},
    {"kind": "similar", **_PLACE, "delta": 0.5, "tau": 0.1},
    {"kind": "topk", **_PLACE, "k": 1},
    {"kind": "nearest", **_PLACE, "k": 1},
    {"kind": "nearest", **_PLACE, "k": 1, "match": "any"},
)


def compile_kernels() -> None:
    """Have a throw-away shard process a few events of every sort, and be written and restored in between."""
    broker = nc.Broker(
        nc.Space((0, 0, 2, 2)), window=nc.Window(count=3, age=10.0), weights=nc.Weights.fit(["a b", "é"])
    )
    shard = Shard(0, 1, broker)
    for round_ in range(3):
        decoder = Decoder("", 0, "events")
        for number, query in enumerate(_QUERIES):
            decoder.add(0, None, {"id": f"{round_}-{number}", **query, "ts": 10_000 * round_})
            move = {"region": [0, 0, 1, 1]} if "region" in query else {"lon": 0.5, "lat": 0.5}
            decoder.add(0, None, {"event": "move", "id": f"{round_}-{number}", **move, "ts": 10_000 * round_ + 5})
            if round_:
                decoder.add(
                    0, None, {"event": "unsubscribe", "id": f"{round_ - 1}-{number}", "ts": 10_000 * round_ + 6}
                )
        for number in range(8):
            message = {"id": 10 * round_ + number, "lon": number / 4, "lat": 1, "ts": 10_000 * round_ + 2 + number // 2}
            decoder.add(0, None, {**message, "text": "a é b c"[: 2 * number]})
        table = decoder.table()
        shard.apply(table.take(ordered(table)))
        with tempfile.TemporaryDirectory() as folder:
            shard.broker.snapshot(Path(folder) / "snapshot")
            shard.broker = nc.Broker.restore(Path(folder) / "snapshot")
