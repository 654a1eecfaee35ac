"""Reports of shards add up to totals: after every micro-batch, and again after a restart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nearcast.cluster.store import Store, read_json, write_json

_KEPT_STEPS = 10  # records kept; the last two are needed, the rest is for people


@dataclass(slots=True)
class Totals:
    """What a run has done since its checkpoint was made.

    `rows` always equals `accepted + late + rejects`.
    """

    counts: Counter[str] = field(default_factory=Counter)  # rows, messages, events, late, rejects, added, removed, ...
    reasons: Counter[str] = field(default_factory=Counter)  # why rows were rejected
    subscriptions: Counter[str] = field(default_factory=Counter)  # live ones, by kind, and "all"
    next_batch: int = 0

    @property
    def rows(self) -> int:
        """Input rows processed."""
        return self.counts["rows"]

    @property
    def accepted(self) -> int:
        """Messages and subscription events that took effect."""
        return self.counts["messages"] + self.counts["events"]

    @property
    def updates(self) -> int:
        """Updates written."""
        return self.counts["added"] + self.counts["removed"]


def read_totals(store: Store) -> Totals:
    """The totals of the newest step on record."""
    newest = store.last_step()
    return Totals() if newest is None else _totals(read_json(store.step(newest)))


def record_step(store: Store, number: int, reports: Mapping[int, dict[str, Any]]) -> Totals:
    """Add the reports of micro-batch `number`, one per shard, to the totals of the one before, and sweep.

    A micro-batch that is repeated is recorded again, from the same totals before it.
    """
    earlier = read_json(store.step(number - 1))
    totals = Totals() if earlier is None else _totals(earlier)
    totals.subscriptions.clear()
    for report in reports.values():
        totals.counts.update(report["counts"])
        totals.reasons.update(report["reasons"])
        totals.subscriptions.update(report["subscriptions"])
        totals.next_batch = report["next_batch"]
    totals.counts["batches"] = totals.next_batch
    snapshots = [report["snapshot"] for report in reports.values()]
    first_batch = min(report["first_batch"] for report in reports.values())
    record = {
        "counts": totals.counts,
        "reasons": totals.reasons,
        "subscriptions": totals.subscriptions,
        "next_batch": totals.next_batch,
        "snapshots": snapshots,
        "first_batch": first_batch,
    }
    write_json(store.step(number), record)
    if earlier is not None:
        # A restart may repeat this micro-batch, from the states that the one before it committed.
        store.sweep({*snapshots, *earlier["snapshots"]}, min(first_batch, earlier["first_batch"]))
        store.step(number - _KEPT_STEPS).unlink(missing_ok=True)
    return totals


def _totals(record: dict[str, Any]) -> Totals:
    counts, reasons, subscriptions = (Counter(record[name]) for name in ("counts", "reasons", "subscriptions"))
    return Totals(counts, reasons, subscriptions, record["next_batch"])
