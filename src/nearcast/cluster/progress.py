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
    next_turn: int = 0
    states: list[dict[str, Any]] = field(default_factory=list)  # of all shards, as `turn.State` has them

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

    def record(self) -> dict[str, Any]:
        """The totals as JSON."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def of(cls, record: dict[str, Any]) -> Totals:
        """The totals that `record` gave."""
        counted = {name: Counter(record[name]) for name in ("counts", "reasons", "subscriptions")}
        return cls(**{**record, **counted})


def read_totals(store: Store) -> Totals:
    """The totals of the newest step on record, or of the beginning of the era."""
    newest = store.last_step()
    record = read_json(store.start if newest is None else store.step(newest))
    return Totals.of(record) if record else Totals()


def record_step(store: Store, number: int, reports: Mapping[int, dict[str, Any]]) -> Totals:
    """Add the reports of micro-batch `number`, one per shard, to the totals of the one before, and sweep.

    A micro-batch that is repeated is recorded again, from the same totals before it. One without reports, such as Spark
    begins with when there is no turn yet, changes nothing.
    """
    earlier = read_json(store.step(number - 1) if number else store.start)
    totals = Totals.of(earlier) if earlier else Totals()
    if reports:
        totals.subscriptions.clear()
        for report in reports.values():
            totals.counts.update(report["counts"])
            totals.reasons.update(report["reasons"])
            totals.subscriptions.update(report["subscriptions"])
        totals.states = [reports[shard]["state"] for shard in sorted(reports)]
        totals.next_turn, totals.next_batch = (totals.states[0][name] for name in ("next_turn", "next_batch"))
        totals.counts["batches"] = totals.next_batch
    write_json(store.step(number), totals.record())
    if reports and earlier and earlier["states"]:
        # A restart may repeat this micro-batch, from the states that the one before it committed.
        states = totals.states + earlier["states"]
        first_turn, first_batch = (min(state[name] for state in states) for name in ("first_turn", "first_batch"))
        store.sweep({state["snapshot"] for state in states}, first_turn, first_batch)
        store.step(number - _KEPT_STEPS).unlink(missing_ok=True)
    return totals


def imbalance(loads: list[float]) -> float:
    """(max - min) / mean of what shards had to do; 0 where there was nothing."""
    mean = sum(loads) / len(loads) if loads else 0.0
    return (max(loads) - min(loads)) / mean if mean > 0 else 0.0


def metrics(before: Totals, after: Totals, reports: Mapping[int, dict[str, Any]], waiting: int) -> dict[str, Any]:
    """What one micro-batch did, for `metrics.jsonl`; `waiting` rows are ready and not yet processed."""
    new = after.counts - before.counts
    work = [round(reports[shard]["work"], 6) for shard in sorted(reports)]
    return {
        "turn": after.next_turn - 1,
        "batch": after.next_batch - 1,
        "rows": new["rows"],
        "messages": new["messages"],
        "events": new["events"],
        "late": new["late"],
        "rejects": new["rejects"],
        "updates": new["added"] + new["removed"],
        "moved": new["moved"],
        "restores": new["restores"],
        "lag_rows": waiting,
        "shard_seconds": [round(reports[shard]["seconds"], 6) for shard in sorted(reports)],
        "shard_work": work,
        "imbalance": round(imbalance(work), 4),
    }
