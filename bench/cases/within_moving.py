"""`Within` subscriptions that travel on roads: what arrivals and what moves cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.cases.messages import admit, batches
from bench.cases.within import BATCH, Delivery, Drawing, Standing, compare
from bench.figure import Counts, Stopwatch, WrongAnswer
from nearcast import Broker, Window
from nearcast.columns.arena import Array, Ints
from nearcast.columns.regions import box_rows
from nearcast.engines.contract import Changes
from nearcast.engines.oracle import WithinOracle
from nearcast.model.kinds import Kind
from nearcast.workload import datasets
from nearcast.workload.moving import MEDIUM, Network, on_roads
from nearcast.workload.schema import BOX

MOVING_LINES = {
    "AP+-Tree": {"engine": "ap_tree"},
    "IQ+-Tree": {"engine": "iq_plus"},
    "RQ+-Tree": {"engine": "rq_plus"},
    "SS-Index": {"engine": "ss_index"},
    "KK-Index": {"engine": "kk_index"},
}
MOVING_SIZES = {
    "messages": "tweets_2021_2022",
    "roads": "oldenburg",
    "subscriptions": 200_000,
    "window": 200_000,
    "mobility": 0.4,
    "velocity": 1.0,
    "settled": 10,
    "checked": 100,
}
MOVING_TINY = {"messages": "zipf", "roads": "", "subscriptions": 1_000, "window": 2_000, "settled": 0, "checked": 50}

_LIFE = 10  # timestamps that a message lives
_STEPS = 10_000  # timestamps there may be


class Moved(NamedTuple):
    """The moves of one timestamp, as an engine sees them."""

    slots: Ints
    before: Array


def roads(name: str) -> Network:
    """A road network by name; the empty name is a small town with streets in a grid."""
    if name:
        return datasets.read_roads(name)
    side = 8
    at = np.arange(side * side)
    right, up = at[at % side < side - 1], at[at < side * (side - 1)]
    ends = np.concatenate([np.column_stack((right, right + 1)), np.column_stack((up, up + side))])
    return Network.of((at % side).astype(np.float64), (at // side).astype(np.float64), ends)


class Travelling(Standing):
    """Each repetition is one timestamp: a share `mobility` of the subscriptions move, and messages arrive.

    The newest `window` messages live, for ten timestamps; with `kept` false none does, and engines file none.
    `velocity` is in units of the medium one. `scene`, if given, names messages and roads together. A tree that can be
    rebuilt for how subscriptions move first gets `settled` timestamps at most to have been, once.
    """

    def prepare(self) -> None:
        sizes = self.sizes
        if "scene" in sizes:
            sizes["messages"], sizes["roads"] = sizes["scene"].split(" on ")
        sizes["window"] = sizes["window"] or sizes["subscriptions"]  # 0: as many as there are subscriptions
        sizes["sample"] = sizes["window"]
        self.open()
        if not sizes.get("kept", True):
            self.live.window = None  # engines look here; what was before stays to learn from until they are built
        drawn = pa.concat_tables(list(self.drawing.tables(sizes["subscriptions"])))
        placed, self.moves = on_roads(
            drawn, roads(sizes["roads"]), self.seed, bounds=self.stream.space.bounds,
            speed=MEDIUM * sizes["velocity"], n_steps=_STEPS, mobility=sizes["mobility"],
        )  # fmt: skip
        self.slots = self.register(iter([placed]))
        self.engine = self.make()
        self.engine.insert(self.slots)
        for _ in range(sizes["settled"]):
            if self.engine.stats().get("rebuilds", 1) > 0:
                break
            with self.moving() as moved:
                self.engine.move(*moved)
            self.arrive(None)

    @contextmanager
    def moving(self) -> Iterator[Moved]:
        """The next timestamp's moves, written to the table."""
        table = next(self.moves)
        slots = self.slots[table["id"].to_numpy() - 1]
        boxes = np.stack([table[name].to_numpy() for name in BOX], axis=1)
        with self.table.moving(slots, box_rows(boxes)) as before:
            yield Moved(slots, before)

    def arrive(self, watch: Stopwatch | None) -> int:
        """Messages of one timestamp."""
        n = max(1, self.sizes["window"] // _LIFE)
        for batch in batches(self.stream.take(n), BATCH):
            steps = admit(self.live, self.stream.space, batch)
            if watch is None:
                self.engine.publish(steps)
            else:
                with watch:
                    self.engine.publish(steps)
            self.live.release(steps)
            if self.live.window is None:
                self.live.table.free(steps.arrivals)
        return n

    def check(self) -> int:
        """Arrivals, and what a sample of moves changes, against the brute force."""
        n = super().check()
        with self.moving() as moved:
            changes = self.engine.move(*moved)
            chosen = np.linspace(0, moved.slots.size - 1, min(moved.slots.size, self.sizes["checked"])).astype(np.int64)
            sample = moved.slots[chosen]
            right = WithinOracle(self.table, self.context).move(sample, moved.before[chosen])
        kept = np.isin(changes.slots, sample)
        compare(Changes(*(column[kept] for column in changes)), right)
        return n + chosen.size

    def counts(self) -> Counts:
        counted = super().counts()
        return {**counted, "live_bytes": self.live.nbytes}


class Arriving(Travelling):
    """Matching of arrivals, with whatever filing they need; the moves are not timed."""

    unit = "messages"

    def repeat(self, watch: Stopwatch) -> int:
        with self.moving() as moved:
            self.engine.move(*moved)
        return self.arrive(watch)


class Relocating(Travelling):
    """Moves with what they change; the arrivals are not timed."""

    unit = "moves"

    def repeat(self, watch: Stopwatch) -> int:
        with self.moving() as moved, watch:
            self.engine.move(*moved)
        self.arrive(None)
        return int(moved.slots.size)


class MovingBroker(Delivery):
    """Moves through `Broker.move_many`, as Arrow tables of 10,000, with `window` live messages."""

    unit = "moves"
    _MOVES = 10_000

    def prepare(self) -> None:
        super().prepare()
        for batch in batches(self.stream.take(self.sizes["window"]), 10 * BATCH):
            self.broker.publish(batch)

    def new_broker(self) -> Broker:
        return Broker(self.stream.space, Window(count=self.sizes["window"]))

    def given(self, drawing: Drawing) -> pa.Table:
        drawn = super().given(drawing)
        network, bounds = roads(self.sizes["roads"]), self.stream.space.bounds
        mobility = min(1.0, self.sizes["moved"] / drawn.num_rows)
        placed, self.moves = on_roads(drawn, network, self.seed, bounds=bounds, n_steps=_STEPS, mobility=mobility)
        return placed

    def check(self) -> int:
        """What a sample of moves changes."""
        table = next(self.moves).slice(0, self.sizes["checked"]).drop_columns("ts")
        before = self.results(table)
        told = self.broker.move_many(table).to_arrow()
        after = self.results(table)
        for id in table["id"].to_pylist():
            mine = told.filter(pc.equal(told["subscription"], id))
            signs = dict(zip(mine["message"].to_pylist(), mine["sign"].to_pylist(), strict=True))
            right = dict.fromkeys(before[id] - after[id], "-") | dict.fromkeys(after[id] - before[id], "+")
            if signs != right or mine.num_rows != len(right):
                raise WrongAnswer(f"move of {id}: {len(signs)} updates, {len(right)} are right")
        return int(table.num_rows)

    def results(self, table: pa.Table) -> dict[int, set[int]]:
        """What the brute force finds for the subscriptions of some moves."""
        registry, tables, _, context = self.broker.parts
        oracle, ids = WithinOracle(tables[Kind.WITHIN], context), {}
        for id in table["id"].to_pylist():
            slots, _ = oracle.result(registry.where(registry.find(id))[1])
            ids[id] = set(context.live.table.ids.to_arrow(slots).to_pylist())
        return ids

    def repeat(self, watch: Stopwatch) -> int:
        table = next(self.moves).drop_columns("ts")
        with watch:
            for at in range(0, table.num_rows, self._MOVES):
                if self.broker.move_many(table.slice(at, self._MOVES)).rejects:
                    raise WrongAnswer("a move was refused")
                watch.lap("10,000 moves")
        return int(table.num_rows)
