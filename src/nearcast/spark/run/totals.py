"""What a run has done: reports of shards add up, after every micro-batch, and again after a restart."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearcast.errors import SetupError
from nearcast.spark.shards.store import Store

_KEPT = 100  # records that are kept; Spark may go back as far


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


class Record:
    """The totals after each batch, in a folder of the driver."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._store = Store(folder.absolute().as_uri())

    def last(self) -> Totals:
        """The totals after the last batch on record."""
        numbers = [int(name[:-5]) for name in self._store.names("") if name.endswith(".json")]
        return self._read(max(numbers)) if numbers else Totals()

    def add(self, batch: int, reports: list[dict[str, Any]]) -> Totals:
        """Add the reports of a batch, one for each shard. A batch that is repeated is added to the same as before."""
        before = [int(name[:-5]) for name in self._store.names("") if name.endswith(".json") and int(name[:-5]) < batch]
        totals = self._read(max(before)) if before else Totals()
        if reports:
            totals.subscriptions.clear()
        for report in reports:
            totals.counts.update(report["counts"])
            for name in ("rows", "events"):  # assigns are no input
                totals.counts[name] -= report["counts"].get("assigned", 0)
            totals.reasons.update(report["reasons"])
            totals.subscriptions.update(report["subscriptions"])
        assert totals.rows == totals.accepted + totals.counts["late"] + totals.counts["rejects"], "rows were lost"
        totals.next_batch = batch + 1
        shown = {name: getattr(totals, name) for name in totals.__slots__}
        self._store.put(f"{batch}.json", json.dumps(shown).encode())
        self._store.delete(f"{batch - _KEPT}.json")
        return totals

    def _read(self, batch: int) -> Totals:
        place = self._folder / f"{batch}.json"
        try:
            known = json.loads(self._store.need(place.name).to_pybytes())
            counted = {name: Counter(known[name]) for name in ("counts", "reasons", "subscriptions")}
            return Totals(**counted, next_batch=known["next_batch"])
        except (ValueError, KeyError, TypeError) as error:
            raise SetupError(
                f"{place} is damaged ({error}). Put it back from a copy, or name another --out."
            ) from error
