"""Compiles what a shard needs, by asking one of everything, so that workers find it compiled.

Kernels are compiled once per machine and version, which takes some minutes of one core. They are spent while Spark
starts, and by two processes instead of every worker.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import nearcast as nc
from nearcast.broker.warm import compile_kernels as compile_for_brokers
from nearcast.cluster.decode import Decoder
from nearcast.cluster.intake import ordered, with_words
from nearcast.cluster.schema import MESSAGE_COLUMNS, PUBLISH, SUBSCRIBE
from nearcast.cluster.shard import Shard
from nearcast.cluster.specs import subscriptions_of
from nearcast.kernel_cache import kernel_folder, module_digest
from nearcast.partition.partition import fit

_RING = [[[0, 0], [2, 0], [2, 2], [0, 0]]]
_PLACE: dict[str, Any] = {"lon": 1, "lat": 1, "keywords": "a b"}
_QUERIES: tuple[dict[str, Any], ...] = (
    {"kind": "within", "region": [0, 0, 2, 2], "keywords": "a OR (b AND NOT c)"},
    {"kind": "within", "region": {"type": "Circle", "coordinates": [1, 1], "radius": 9}, "keywords": ["a"]},
    {"kind": "within", "region": {"type": "Polygon", "coordinates": _RING}, "keywords": "a"},
    {"kind": "similar", **_PLACE, "delta": 0.5, "tau": 0.1},
    {"kind": "topk", **_PLACE, "k": 1},
    {"kind": "nearest", **_PLACE, "k": 1},
    {"kind": "nearest", **_PLACE, "k": 1, "match": "any"},
)


_DONE = kernel_folder() / f"all-{module_digest('nearcast.cluster.warm')}"  # is there when everything was compiled
_HALVES = (("within",), ("similar", "topk", "nearest"))  # kinds whose kernels take about as long to compile


def compile_kernels(kinds: tuple[str, ...] = (*_HALVES[0], *_HALVES[1])) -> None:
    """Have a throw-away shard process a few events of every sort, and be written and restored in between."""
    compile_for_brokers(kinds)
    weights = nc.Weights.fit(["a b", "é"])
    shard = Shard(0, nc.Broker(nc.Space((0, 0, 2, 2), metric="euclidean"), nc.Window(count=3, age=10.0), weights))
    for round_ in range(3):
        decoder, ts = Decoder("", 0, "events"), 10_000 * round_
        for number, query in enumerate(query for query in _QUERIES if query["kind"] in kinds):
            decoder.add(0, None, {"id": f"{round_}-{number}", **query, "ts": ts})
            to = {"region": [0, 0, 1, 1]} if "region" in query else {"lon": 0.5, "lat": 0.5}
            decoder.add(0, None, {"event": "move", "id": f"{round_}-{number}", **to, "ts": ts + 5})
            if round_:
                decoder.add(0, None, {"event": "unsubscribe", "id": f"{round_ - 1}-{number}", "ts": ts + 6})
        for number in range(8):
            message = {"id": ts + number, "lon": number / 4, "lat": 1, "ts": ts + 2 + number // 2}
            decoder.add(0, None, {**message, "text": "a é b c"[: 2 * number]})
        table = decoder.table()
        shard.apply(with_words(table.take(ordered(table))), np.zeros(table.num_rows, np.int32), lambda updates: None)
        with tempfile.TemporaryDirectory() as folder:
            shard.broker.snapshot(Path(folder) / "snapshot")
            shard.broker = nc.Broker.restore(Path(folder) / "snapshot")
    events = table.column("event").to_numpy()
    subscriptions = subscriptions_of(table, np.flatnonzero(events == SUBSCRIBE))
    sample = table.filter(events == PUBLISH).select(MESSAGE_COLUMNS)
    partition, _ = fit("dkm", subscriptions, sample, 2, shard.broker.space, weights=weights)
    partition.assign(subscriptions)


def compile_aside() -> None:
    """`compile_kernels` in processes of their own, unless that was done; what fails is left to the workers."""
    if not _DONE.exists():
        subprocess.run([sys.executable, "-m", __name__], check=False)


if __name__ == "__main__":
    with ProcessPoolExecutor(len(_HALVES)) as halves:
        list(halves.map(compile_kernels, _HALVES))
    if _DONE.parent.exists():  # not where compiling is switched off
        _DONE.touch()
