"""Subscriptions split into shards: what each shard has to do, one after the other in one process."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa

from bench.cases.messages import Stream, admit, batches
from bench.cases.nearest import PLACES, engine_class
from bench.cases.within import STOP_WORDS, compare
from bench.figure import Case, Counts, Stopwatch, WrongAnswer
from bench.rivals.region_lists import RegionListsEngine
from nearcast.columns.arena import Ints, with_room
from nearcast.columns.decode_subscriptions import Rules, decode_subscriptions
from nearcast.columns.subscription_tables import PointRows, PointTable
from nearcast.engines.contract import EngineContext
from nearcast.engines.exact import NEAREST
from nearcast.engines.nearest.engine import NearestEngine
from nearcast.engines.nearest.grid import GridSettings
from nearcast.engines.nearest.settings import NearestSettings
from nearcast.engines.oracle import KeptOracle
from nearcast.model.kinds import Kind
from nearcast.partition.footprint import find_footprints
from nearcast.partition.partition import Partition, SplitSettings, fit
from nearcast.partition.quadtree_sets import space_sets
from nearcast.partition.sample import Sample
from nearcast.text.vocabulary import Vocabulary
from nearcast.text.words import from_lists
from nearcast.window.live import LiveMessages, Steps
from nearcast.workload import subscriptions

STEP = 1000  # messages of a time-stamp, as in DkM-SKS 5.1
# Each way to split with the worker index that its paper gives it.
WAYS = {
    "DkM-SKS": {"method": "dkm", "engine": "nearest"},
    "DkM-SKS by sets": {"method": "dkm", "by_set": True, "engine": "nearest"},
    "KOP": {"method": "keyword", "engine": "keyword"},
    "SOP": {"method": "space", "engine": "regions"},
    "PS2Stream-like": {"method": "ps2stream", "engine": "nearest"},
}
SIZES = {"messages": PLACES, "subscriptions": 200_000, "shards": 20, "k": 10, "before": 200_000, "published": 5_000,
         "changed": 100, "checked": 5}  # fmt: skip
TINY = {"messages": "zipf", "subscriptions": 1_500, "shards": 3, "k": 10, "before": 1_000, "published": 2_000,
        "changed": 10, "checked": 50}  # fmt: skip
WORK = {
    "counted work, (max - min) / mean": ("imbalance", "one"),
    "counted work of the busiest shard, a message": ("most_work", "messages"),
    "counted work of all shards, a message": ("work", "messages"),
}

_SOURCE = 300_000  # messages that subscriptions are drawn from


class Shard:
    """A table and an engine."""

    def __init__(self, context: EngineContext, name: str) -> None:
        self.context = context
        self.table = PointTable(context.vocabulary, Kind.NEAREST)
        self.engine = self.make("nearest")
        self.name = name
        self.sets: Ints = np.zeros(0, dtype=np.int32)  # of each slot, where the split was by sets

    def make(self, name: str) -> NearestEngine:
        """An engine without subscriptions."""
        grid = GridSettings(finest=0 if name == "boxed" else None)
        return engine_class(name)(self.table, self.context, settings=NearestSettings(grid=grid))

    def insert(self, given: pa.Table, sets: Ints | None = None) -> None:
        """Take subscriptions, all well-formed; newcomers are a set of their own."""
        for part in decode_subscriptions(given, Rules(self.context.space, False, None)).parts:
            assert isinstance(part.given, PointRows)
            numbers = np.asarray(part.ids, np.int32)
            terms = self.context.vocabulary.encode(from_lists(part.words))
            slots = self.table.insert(part.given, terms, numbers, self.context.live.last)
            self.sets = with_room(self.sets, self.table.slots.capacity)
            self.sets[slots] = 0 if sets is None else sets[part.given.rows]
            if isinstance(self.engine, RegionListsEngine):
                self.engine.put_in_sets(self.sets)
            self.engine.insert(slots)

    def remove(self, slots: Ints) -> None:
        """Forget subscriptions."""
        self.engine.remove(slots)
        self.table.remove(slots)

    def settle(self) -> None:
        """Let the worker's own index take over."""
        if self.name != "nearest":
            before, self.engine = self.engine.state(), self.make(self.name)
            if isinstance(self.engine, RegionListsEngine):
                self.engine.put_in_sets(self.sets)
            self.engine.load(before)
            self.engine.refile()

    def check(self, steps: Steps) -> None:
        """Compare with the brute force."""
        right = KeptOracle(NEAREST, self.table, self.context)
        right.results.policy = self.engine.results.policy
        right.results.load({name: array.copy() for name, array in self.engine.results.state().items()})
        compare(self.engine.publish(steps), right.publish(steps))

    @property
    def work(self) -> int:
        """Index entries looked at, subscriptions compared with a message, and results that changed, so far."""
        stats = self.engine.stats()
        return int(stats["any"]["touched"] + stats["candidates"] + stats["kept"])


class Sharded(Case):
    """`Nearest` of any word in `shards` shards, split by `method`, with the index `engine` in each.

    A repetition is `published` messages in time-stamps of 1,000, each followed by `changed` subscriptions that leave
    and as many that come. What is timed is the busiest shard; laps tell it from the idlest, and the parts of its time.
    Every worker decodes and admits all messages itself: that intake is done once here and counts for each shard. Who
    takes which subscription is said once for all shards, by the driver of a pipeline: a lap of its own.
    There is no window; `before` messages came earlier, and are what costs are estimated from; `after` more came after
    the split.
    """

    unit = "messages"

    def prepare(self) -> None:
        sizes = self.sizes
        self.stream = Stream(sizes["messages"], self.seed)
        self.source = self.stream.source
        self.rng = np.random.default_rng(self.seed)
        self.live = LiveMessages(self.stream.space, None, Vocabulary())
        context = EngineContext(self.stream.space, self.live.table.vocabulary, self.live)
        source = subscriptions.Source.of(self.stream.take(min(_SOURCE, 2 * sizes["subscriptions"])), STOP_WORDS.split())
        n = sizes["subscriptions"]
        n_more = sizes["changed"] * (20 * sizes["published"] + sizes.get("after", 0)) // STEP
        drawn = subscriptions.nearest(source, n + n_more, self.seed, match="any", k=(1, sizes["k"]))
        everyone = pa.concat_tables(drawn)
        before = self.stream.take(sizes["before"])
        self.partition, held = self.split(everyone.slice(0, n), before)
        sets = self.sets_of(everyone.slice(0, n), before)
        self.coming = everyone.slice(n)
        self.shards = [Shard(context, sizes["engine"]) for _ in range(sizes["shards"])]
        for number, shard in enumerate(self.shards):
            own = everyone.slice(0, n).filter(pa.array(held == number))
            if own.num_rows:
                shard.insert(own, sets[held == number])
        for batch in batches(before, STEP):
            steps = admit(self.live, self.stream.space, batch)
            for shard in self.shards:
                shard.engine.publish(steps)
            self.live.release(steps)
        for shard in self.shards:
            shard.settle()
        self.start: np.ndarray | None = None
        self.assigning = self.intake = 0  # CPU ns
        self.n_done = 0
        for _ in range(sizes.get("after", 0) // STEP):
            self.step(np.zeros((sizes["shards"], 3), np.int64), self.stream.take(STEP))

    def split(self, given: pa.Table, before: pa.Table) -> tuple[Partition, Ints]:
        """The partition under test, and who holds what."""
        if self.sizes["method"] == "ps2stream":
            from bench.rivals.ps2stream import fit as fit_rival

            return fit_rival(given, before, self.sizes["shards"], self.stream.space)
        names = ("theta", "gamma1", "gamma2", "by_set")
        settings = SplitSettings(window=False, **{name: self.sizes[name] for name in names if name in self.sizes})
        return fit(self.sizes["method"], given, before, self.sizes["shards"], self.stream.space, settings=settings)

    def sets_of(self, given: pa.Table, before: pa.Table) -> Ints:
        """The set of each subscription, from 1 on, where whole sets were dealt out; else 0."""
        sets: Ints = np.zeros(given.num_rows, dtype=np.int32)
        if self.sizes["method"] == "space":
            sample = Sample(self.stream.space, before, None)
            found = find_footprints(given, sample)
            order, parts = space_sets(found, sample, SplitSettings().theta * self.sizes["shards"])
            for number, part in enumerate(parts, start=1):
                sets[found.rows[order.of(part.set)]] = number
        return sets

    def check(self) -> int:
        steps = admit(self.live, self.stream.space, self.stream.take(self.sizes["checked"]))
        for shard in self.shards:
            shard.check(steps)
        self.live.release(steps)
        self.start = np.array([shard.work for shard in self.shards])
        return int(self.sizes["checked"])

    def repeat(self, watch: Stopwatch) -> int:
        spent = np.zeros((len(self.shards), 3), np.int64)  # CPU ns: update, insertion, deletion
        self.assigning = self.intake = 0
        for batch in batches(self.stream.take(self.sizes["published"]), STEP):
            self.step(spent, batch)
        whole = spent.sum(axis=1) + self.intake
        slowest = int(whole.argmax())
        watch.cpu_s += whole[slowest] / 1e9
        watch.wall_s += whole[slowest] / 1e9
        told = {"busiest shard": whole[slowest], "idlest shard": whole.min(), "intake": np.int64(self.intake),
                "update": spent[slowest, 0], "insertion": spent[slowest, 1], "deletion": spent[slowest, 2],
                "assignment": np.int64(self.assigning)}  # fmt: skip
        n_steps = max(1, self.sizes["published"] // STEP)
        for group, ns in told.items():
            watch.laps.setdefault(group, []).append((int(ns) // n_steps, int(ns) // n_steps))
        self.n_done += self.sizes["published"]
        return int(self.sizes["published"])

    def step(self, spent: np.ndarray, batch: pa.Table) -> None:
        """A time-stamp: messages come, then some subscriptions leave and others come."""
        began = time.process_time_ns()
        steps = admit(self.live, self.stream.space, batch)
        self.intake += time.process_time_ns() - began
        for number, shard in enumerate(self.shards):
            spent[number, 0] += _timed(shard.engine.publish, steps)
        self.live.release(steps)
        n = self.sizes["changed"]
        new, self.coming = self.coming.slice(0, n), self.coming.slice(n)
        began = time.process_time_ns()
        takers = self.partition.assign(new)
        self.assigning += time.process_time_ns() - began
        leaving = np.bincount(self.rng.integers(0, len(self.shards), n), minlength=len(self.shards))
        for number, shard in enumerate(self.shards):
            own = new.filter(pa.array(takers == number))
            spent[number, 1] += _timed(shard.insert, own) if own.num_rows else 0
            used = shard.table.used_slots
            slots = self.rng.choice(used, min(int(leaving[number]), used.size), replace=False).astype(np.int32)
            spent[number, 2] += _timed(shard.remove, np.sort(slots))

    def counts(self) -> Counts:
        done = np.array([shard.work for shard in self.shards]) - (0 if self.start is None else self.start)
        held = np.array([len(shard.table) for shard in self.shards])
        return {
            "work": int(done.sum()), "most_work": int(done.max()), "imbalance": round(spread(done), 6), "one": 1,
            "messages": self.n_done, "held_imbalance": round(spread(held), 6),
            "predicted_imbalance": round(spread(self.partition.loads), 6),
        }  # fmt: skip


class Fitting(Case):
    """Splitting `subscriptions` subscriptions of any word into `shards` by `method`; a repetition fits once."""

    unit = "subscriptions"

    def prepare(self) -> None:
        sizes = self.sizes
        self.stream = Stream(sizes["messages"], self.seed)
        self.source = self.stream.source
        n = sizes["subscriptions"]
        source = subscriptions.Source.of(self.stream.take(min(_SOURCE, 2 * n)), STOP_WORDS.split())
        self.given = pa.concat_tables(subscriptions.nearest(source, n, self.seed, match="any", k=(1, sizes["k"])))
        self.sample = self.stream.take(sizes["before"])
        self.loads = np.zeros(1)

    def check(self) -> int:
        """Loads are the costs of those who are held, counted one by one, but for sets, which cost as wholes."""
        few = self.given.slice(0, self.sizes["checked"])
        partition, held = self.fit(few)
        counted = np.bincount(held, partition.costs(few), self.sizes["shards"])
        if self.sizes["method"] != "space" and not np.allclose(counted, partition.loads):
            raise WrongAnswer(f"shards have to do {partition.loads}, but what they hold costs {counted}")
        return few.num_rows

    def fit(self, given: pa.Table) -> tuple[Partition, Ints]:
        """Split subscriptions."""
        settings = SplitSettings(window=False)
        return fit(self.sizes["method"], given, self.sample, self.sizes["shards"], self.stream.space, settings=settings)

    def repeat(self, watch: Stopwatch) -> int:
        with watch:
            partition, _ = self.fit(self.given)
        self.loads = partition.loads
        return self.given.num_rows

    def counts(self) -> Counts:
        return {"predicted_imbalance": round(spread(self.loads), 6)}


def spread(loads: np.ndarray) -> float:
    """(max - min) / mean."""
    return float((loads.max() - loads.min()) / max(loads.mean(), 1e-300))


def _timed(do: Any, given: Any) -> int:
    """CPU nanoseconds that a call takes."""
    began = time.process_time_ns()
    do(given)
    return time.process_time_ns() - began
