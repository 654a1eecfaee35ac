"""Answers become files: tasks write updates and rejects under the number of their batch and shard, and report counts.

A file is named by what is in it, so that writing it twice is writing it once.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearcast.spark.shards.blocks import from_bytes
from nearcast.spark.shards.fanout import Batches, place
from nearcast.spark.shards.store import Store

UPDATES = ("subscription", "message", "sign", "score", "ts", "batch", "seq")
REPORT = "shard int, report string"
_REPORT = pa.schema([("shard", pa.int32()), ("report", pa.string())])


def writer(out: str, updates_format: str, counts: tuple[str, ...]) -> Callable[[Batches], Batches]:
    """What writes packed answers below a URI, as ``"parquet"`` or ``"jsonl"``, and gives a report for each shard."""

    def write(batches: Batches) -> Batches:
        store, batch = Store(out), place().batch
        parts: dict[int, _Part] = {}
        for rows in batches:
            for row in rows.to_pylist():
                part = parts.setdefault(row["shard"], _Part(updates_format))
                if row["payload"] is not None:
                    part.add(from_bytes(row["payload"]))
                if row["subscriptions"] is not None:
                    part.write(store, f"part-{batch:08d}-{row['shard']:03d}")
                    report = {
                        "counts": {name: row[name] for name in counts if row[name]},
                        "reasons": part.reasons,
                        "subscriptions": json.loads(row["subscriptions"]),
                        "milliseconds": row["milliseconds"],
                    }
                    yield pa.record_batch([[row["shard"]], [json.dumps(report)]], schema=_REPORT)

    return write


class _Part:
    """The answers of one shard to one batch; updates are written as they come, so that they are never all held."""

    def __init__(self, updates_format: str) -> None:
        self._format = updates_format
        self._folder = tempfile.TemporaryDirectory(prefix="nearcast-")
        self._updates = Path(self._folder.name) / "updates"
        self._writer: pq.ParquetWriter | None = None
        self._rejects: list[dict[str, Any]] = []
        self.reasons: Counter[str] = Counter()

    def add(self, answers: pa.Table) -> None:
        told = pc.equal(answers.column("outcome"), "update")
        updates = answers.filter(told).select(UPDATES)
        if updates.num_rows:
            self._add_updates(updates)
        if updates.num_rows == answers.num_rows:
            return
        for row in answers.filter(pc.invert(told)).to_pylist():
            if row["outcome"] == "reject":
                self.reasons[row["reason"].split(", got ")[0]] += 1
            source = {"source": row["source"], "row": row["position"]}
            self._rejects.append({**source, "text": row["row"], "field": row["field"], "reason": row["reason"]})

    def _add_updates(self, updates: pa.Table) -> None:
        if self._format == "parquet":
            self._writer = self._writer or pq.ParquetWriter(self._updates, updates.schema)
            self._writer.write_table(updates)
        else:
            with open(self._updates, "a", encoding="utf-8") as file:
                file.write(_lines(updates.to_pylist()))

    def write(self, store: Store, name: str) -> None:
        """Write all there is, each file whole."""
        if self._writer is not None:
            self._writer.close()
        if self._updates.exists():
            store.put(f"updates/{name}.{self._format}", self._updates.read_bytes())
        if self._rejects:
            store.put(f"rejects/{name}.jsonl", _lines(self._rejects).encode())
        self._folder.cleanup()


def _lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
