"""Subscribers that move and must be told: what the server does for them, and how many messages go to and fro."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from bench.cases.messages import admit, batches
from bench.cases.within import BATCH
from bench.cases.within_moving import Travelling
from bench.figure import Counts, Stopwatch, WrongAnswer
from bench.rivals.safe_regions import EveryMove, SafeRegions, circle_rows
from nearcast.columns.arena import Floats, Ints
from nearcast.engines.oracle import WithinOracle
from nearcast.space.distance import distance
from nearcast.workload.schema import BOX

TALKING_LINES: dict[str, dict[str, Any]] = {"AP+-Tree": {"safe": False}, "AP+-Tree-Safe": {"safe": True}}
TALKING_SIZES = {"engine": "ap_tree", "mobility": 1.0, "arrivals": 10_000, "settled": 0, "checked": 100}


class Talking(Travelling):
    """Circles that travel on roads; in each repetition all of them move, then `arrivals` messages come."""

    unit = "moves"

    def prepare(self) -> None:
        super().prepare()
        kind = SafeRegions if self.sizes["safe"] else EveryMove
        self.talk = kind(self.engine, self.table, self.context, self._places, self._radii)
        self.talk.begin()
        self.n_steps = self.n_sent = 0

    def register(self, tables: Iterator[pa.Table]) -> Ints:
        """Circles instead of boxes, as wide as they are high."""
        slots = super().register(tables)
        rows, metric = self.table.rows[slots], self.stream.space.metric_code
        self._places = np.empty((int(slots.max()) + 1, 2))
        self._radii = np.empty(len(self._places))
        self._places[slots] = np.stack([(rows["x0"] + rows["x1"]) / 2, (rows["y0"] + rows["y1"]) / 2], axis=1)
        self._radii[slots] = [
            distance(metric, x, y, x, top)
            for (x, y), top in zip(self._places[slots].tolist(), rows["y1"].tolist(), strict=True)
        ]
        with self.table.moving(slots, circle_rows(metric, self._places[slots], self._radii[slots])):
            return slots

    def next_places(self) -> tuple[Ints, Floats]:
        """Who moves in the next timestamp, and where to."""
        table = next(self.moves)
        low_x, low_y, top_x, top_y = (table[name].to_numpy() for name in BOX)
        places = np.stack([(low_x + top_x) / 2, (low_y + top_y) / 2], axis=1)
        return self.slots[table["id"].to_numpy() - 1], places

    def check(self) -> int:
        """A sample is told what enters its circles, of moves and of arrivals, and nothing else."""
        n = min(self.slots.size, self.sizes["checked"])
        sample = self.slots[np.linspace(0, self.slots.size - 1, n).astype(np.int64)]
        before = set(self.talk.told)
        self.talk.hear(self.talk.reporting(*self.next_places()))
        self.compare(sample, before)
        before = set(self.talk.told)
        steps = admit(self.live, self.stream.space, self.stream.take(min(BATCH, self.sizes["arrivals"])))
        self.talk.arrive(steps)
        self.compare(sample, before)
        self.live.release(steps)
        return 2 * sample.size

    def compare(self, sample: Ints, before: set[tuple[int, int]]) -> None:
        """What a sample of subscribers was told, against the brute force at the places where they are."""
        places, radii = self.talk.places[sample], self.talk.radii[sample]
        with self.table.moving(sample, circle_rows(self.stream.space.metric_code, places, radii)):
            oracle = WithinOracle(self.table, self.context)
            found = {slot: oracle.result(slot)[0] for slot in sample.tolist()}
        sequences = self.live.table.layout.rows["sequence"]
        right = {(slot, sequence) for slot, messages in found.items() for sequence in sequences[messages].tolist()}
        self.talk.restore(sample)
        chosen = set(sample.tolist())
        told = {pair for pair in self.talk.told if pair[0] in chosen}
        missing, wrong = right - told, told - before - right
        if missing or wrong:
            raise WrongAnswer(f"{len(missing)} pairs were not told, {len(wrong)} should not have been")

    def repeat(self, watch: Stopwatch) -> int:
        before = self.talk.n_sent
        slots, places = self.next_places()
        reporting = self.talk.reporting(slots, places)
        with watch:
            self.talk.hear(reporting)
        for batch in batches(self.stream.take(self.sizes["arrivals"]), BATCH):
            steps = admit(self.live, self.stream.space, batch)
            with watch:
                self.talk.arrive(steps)
            self.live.release(steps)
        self.n_steps += 1
        self.n_sent += self.talk.n_sent - before
        return int(slots.size)

    def counts(self) -> Counts:
        return {**super().counts(), "sent": self.n_sent, "timestamps": self.n_steps}
