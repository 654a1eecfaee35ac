"""Buffers under random arrivals, expiries and refills: after every event the result is the brute force's."""

from __future__ import annotations

import os
import random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from window.stored import ANY_FIELDS, NO_FIELDS

import nearcast as nc
from nearcast.columns.message_table import MESSAGE, MessageLayout
from nearcast.columns.subscription_tables import ENDED, POINT, TOPK_SCALE, PointLayout
from nearcast.columns.times import FOREVER
from nearcast.engines.blocks import USED
from nearcast.engines.kept.buffers import has_room
from nearcast.engines.kept.compaction import NEVER
from nearcast.engines.kept.layout import MOST_MARK, N_BUFFERED, N_TAKEN, AsOf
from nearcast.engines.kept.range_cost import updates_until_short, worth_covering
from nearcast.engines.kept.results import Results
from nearcast.engines.kept.skyband import (
    COST,
    KMAX,
    RANGE,
    RATIO,
    Policy,
    buffer_limit,
    is_short,
    offer,
    search_limit,
    turns_until_short,
    withdraw,
    worth_keeping,
)
from nearcast.engines.kept.watch import leave
from nearcast.window.expiries import UNLIMITED

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
N_SLOTS = 6
NO_WORDS = np.zeros(0, dtype=np.int32)
NO_SCALES = np.zeros(0, dtype=TOPK_SCALE)


class Lifetime(NamedTuple):
    count: int | None
    age: int | None
    window: bool = True


LIFETIMES = {
    "count": Lifetime(30, None),
    "age": Lifetime(None, 30),
    "both": Lifetime(40, 30),
    "own expiries only": Lifetime(None, None),
    "no window": Lifetime(None, None, False),
}


class Buffers:
    """Results beside a list of the live messages and their ranks."""

    def __init__(self, lifetime: Lifetime, ks: list[int], seed: int, strategy: tuple[int, float] = (COST, 0.0)) -> None:
        self.lifetime = lifetime
        self.choice = random.Random(seed)
        drops = lifetime.window and strategy[0] != KMAX
        self.results = Results(Policy(lifetime.count or UNLIMITED, lifetime.window, *strategy, drops))
        self.rows = np.zeros(4096, dtype=MESSAGE)
        self.subscriptions = np.zeros(N_SLOTS, dtype=POINT)
        self.subscriptions["expires"] = ENDED
        self.ranks: dict[int, dict[int, float]] = {}  # by subscription and message slot
        self.ks: dict[int, int] = {}
        self.shown: dict[int, dict[int, float]] = {}
        self.sequence = self.clock = 0
        self.swept = 1  # buffers that the pool is swept of after each arrival
        self.free = list(range(4096))
        for slot, k in enumerate(ks):
            self.open(slot, k)

    @property
    def messages(self) -> MessageLayout:
        return MessageLayout(self.rows, NO_WORDS, NO_WORDS, NO_FIELDS)

    def open(self, slot: int, k: int) -> None:
        self.results.open(np.array([slot], np.int32), np.array([k], np.int32), np.zeros(1, np.int64))
        self.subscriptions["expires"][slot] = FOREVER
        self.ks[slot], self.shown[slot] = k, {}
        self.ranks[slot] = {} if not self.lifetime.window else {m: self.rank() for m in self.live()}
        if self.ranks[slot]:
            self.refresh(slot)

    def close(self, slot: int) -> None:
        self.results.close(np.array([slot], np.int32))
        self.subscriptions["expires"][slot] = ENDED
        del self.ks[slot], self.shown[slot], self.ranks[slot]

    def rank(self) -> float:
        return self.choice.choice([0.0, 0.25, 0.5, self.choice.random()])

    def live(self) -> list[int]:
        return np.flatnonzero(self.rows["sequence"]).tolist()

    def best(self, slot: int, limit: int) -> list[int]:
        ranks = self.ranks[slot]
        return sorted(ranks, key=lambda m: (-ranks[m], -self.rows["sequence"][m]))[:limit]

    def put(self, slot: int) -> None:
        found = self.best(slot, self.results.limit(slot))
        ranks = np.array([self.ranks[slot][m] for m in found])
        self.results.put(slot, self.messages, np.array(found, np.int32), ranks, 0)

    def refresh(self, slot: int) -> None:
        """Evaluate again, as one event."""
        self.results.begin_batch(self.rows.size)
        self.put(slot)
        self.emit_changes()

    def move(self, slot: int) -> None:
        self.ranks[slot] = {m: self.rank() for m in self.live()}
        self.refresh(slot)

    def arrive(self, life: int | None, tick: int) -> None:
        """A message arrives `tick` later; those whose time is over leave."""
        results = self.results
        results.begin_batch(self.rows.size)
        self.clock += tick
        self.sequence += 1
        message = self.free.pop(self.choice.randrange(len(self.free)))
        ends = [self.clock + end for end in (life, self.lifetime.age) if end is not None]
        self.rows[message] = (self.sequence, 0, 0, self.clock, min(ends, default=FOREVER), FOREVER, 0, 0, 0, 0)
        gone = [m for m in self.live() if self.is_over(m)] if self.lifetime.window else []
        self.choice.shuffle(gone)
        as_of = AsOf(0, self.sequence, self.clock)
        subscriptions = PointLayout(self.subscriptions, NO_SCALES, NO_WORDS, NO_WORDS, ANY_FIELDS[1])
        for m in gone:
            while not leave(results.layout, subscriptions, self.rows, np.int32(m), as_of, results.policy):
                results.make_room_for_offers()
        for slot, ranks in self.ranks.items():
            for m in gone:
                ranks.pop(m, None)
            if self.choice.random() < 0.8:  # else it shares no word
                rank = self.rank()
                if not has_room(results.layout, slot):
                    results.make_room_for_offers()
                    assert has_room(results.layout, slot)
                offer(results.layout, self.messages, slot, np.int32(message), rank, 0, results.policy)
                if message not in gone:
                    ranks[message] = rank
        for slot in results.touched.copy():
            if is_short(results.layout, slot):
                self.put(int(slot))
        self.emit_changes()
        results.maintain(self.swept)
        results.check(np.array(sorted(self.ks), np.int32), self.messages)
        self.rows["sequence"][gone] = 0
        self.free += gone
        if not self.lifetime.window:
            self.forget()

    def retract(self, message: int) -> None:
        """A message is withdrawn."""
        results = self.results
        results.expect_withdrawals()
        results.begin_batch(self.rows.size)
        self.rows["withdrawn_by"][message] = self.sequence
        for slot, ranks in self.ranks.items():
            if not has_room(results.layout, slot):
                results.make_room_for_offers()
            withdraw(results.layout, self.rows, slot, np.int32(message), 0)
            ranks.pop(message, None)
        as_of = AsOf(0, self.sequence, self.clock)
        subscriptions = PointLayout(self.subscriptions, NO_SCALES, NO_WORDS, NO_WORDS, ANY_FIELDS[1])
        while not leave(results.layout, subscriptions, self.rows, np.int32(message), as_of, results.policy):
            results.make_room_for_offers()
        for slot in results.touched.copy():
            if is_short(results.layout, slot):
                self.put(int(slot))
        self.emit_changes()
        self.rows["sequence"][message] = 0
        self.free.append(message)

    def forget(self) -> None:
        """Without a window, messages that no result holds are forgotten."""
        held = np.zeros(self.rows.size, dtype=bool)
        self.results.mark_messages(np.array(sorted(self.ks), np.int32), held)
        for m in self.live():
            if not held[m]:
                self.rows["sequence"][m] = 0
                self.free.append(m)
                for ranks in self.ranks.values():
                    ranks.pop(m, None)

    def is_over(self, message: int) -> bool:
        row = self.rows[message]
        count = self.lifetime.count
        return bool(row["expires_at"] <= self.clock or (count is not None and row["sequence"] <= self.sequence - count))

    def emit_changes(self) -> None:
        """End the event and compare what was said with how the result of every subscription changed."""
        results = self.results
        results.emit_changes(0)
        said: dict[int, list[Any]] = {slot: [] for slot in self.ks}
        for change in results.changes:
            said[int(change["slot"])].append((int(change["sign"]), int(change["message"]), float(change["rank"])))
        for slot, k in self.ks.items():
            best = self.best(slot, k)
            after = {m: self.ranks[slot][m] for m in best}
            before = self.shown[slot]
            messages, ranks = results.result(slot)
            assert messages.tolist() == best
            assert ranks.tolist() == list(after.values())
            assert sorted(said[slot]) == sorted(
                [(-1, m, rank) for m, rank in before.items() if m not in after]
                + [(1, m, rank) for m, rank in after.items() if m not in before]
            )
            self.shown[slot] = after
        results.check(np.array(sorted(self.ks), np.int32), self.messages)


@pytest.mark.parametrize("name", LIFETIMES)
@pytest.mark.parametrize("ks", [[1], [3, 1, 2], [10, 4, 40], [1000, 2**31 - 1], [33, 100]], ids=str)
def test_results_are_those_of_the_brute_force(name: str, ks: list[int]) -> None:
    lifetime = LIFETIMES[name]
    for seed, strategy in enumerate(
        [(COST, 0.0), (KMAX, 3.0), (RATIO, 0.75), (RANGE, 0.0)] if COMPILED else [(COST, 0.0)]
    ):
        buffers = Buffers(lifetime, ks, seed, strategy)
        choice = buffers.choice
        for _ in range(250 if COMPILED else 90):
            life = choice.choice([None, None, None, 1, 10, 25])
            buffers.arrive(life if lifetime.window else None, choice.choice([0, 1, 1, 2, 15]))
            if choice.random() < 0.05 and lifetime.window:
                buffers.move(choice.choice(sorted(buffers.ks)))
            if choice.random() < 0.05:
                slot = choice.randrange(N_SLOTS)
                if slot in buffers.ks:
                    if len(buffers.ks) > 1:
                        buffers.close(slot)
                else:
                    buffers.open(slot, choice.choice(ks))


@pytest.mark.parametrize("name", [name for name in LIFETIMES if LIFETIMES[name].window])
@pytest.mark.parametrize("ks", [[1], [3, 1, 2], [10, 4, 40], [1000, 2**31 - 1], [33, 100]], ids=str)
def test_what_is_withdrawn_brings_back_what_it_dominated(name: str, ks: list[int]) -> None:
    """Messages are withdrawn after a time in which dominated ones were dropped."""
    for seed, strategy in enumerate(
        [(COST, 0.0), (KMAX, 3.0), (RATIO, 0.75), (RANGE, 0.0)] if COMPILED else [(COST, 0.0)]
    ):
        buffers = Buffers(LIFETIMES[name], ks, seed, strategy)
        choice = buffers.choice
        for turn in range(200 if COMPILED else 80):
            buffers.arrive(choice.choice([None, None, None, 10, 25]), choice.choice([0, 1, 1, 2]))
            if turn > 50 and choice.random() < 0.4:
                live = buffers.live()
                if live:
                    buffers.retract(choice.choice(live))


def test_without_a_window_the_ball_closes_with_the_kth_message() -> None:
    buffers = Buffers(LIFETIMES["no window"], [4] * N_SLOTS, 6)
    for _ in range(40):
        buffers.arrive(None, 1)
    layout = buffers.results.layout
    assert (layout.buffers["floor"][:N_SLOTS] == [min(shown.values()) for shown in buffers.shown.values()]).all()
    assert layout.counters[N_TAKEN] == layout.counters[N_BUFFERED] == 4 * N_SLOTS


def test_memory_settles_under_churn() -> None:
    buffers = Buffers(LIFETIMES["count"], [5, 1, 20], 3)
    sizes = []
    rounds = 1000 if COMPILED else 200
    for n in range(rounds):
        buffers.arrive(buffers.choice.choice([None, 10]), 1)
        if n % 7 == 0:
            slot = buffers.choice.randrange(3)
            buffers.close(slot)
            buffers.open(slot, buffers.choice.choice([5, 1, 20]))
        sizes.append(buffers.results.nbytes)
    assert max(sizes[rounds // 2 :]) <= 1.5 * max(sizes[: rounds // 2])


def test_the_pool_gives_back_what_short_buffers_do_not_need() -> None:
    buffers = Buffers(LIFETIMES["count"], [100] * N_SLOTS, 7)
    for _ in range(60):
        buffers.arrive(None, 1)
    full = buffers.results.layout.blocks[USED]
    for slot in range(N_SLOTS):
        buffers.close(slot)
        buffers.open(slot, 1)
    for _ in range(2 * N_SLOTS):
        buffers.arrive(None, 1)
    assert buffers.results.layout.blocks[USED] < full / 3


def test_a_sweep_under_way_takes_no_more_room() -> None:
    """Blocks beyond the boundary were once left alone until its end: the pool grew to six times what it held."""
    buffers = Buffers(LIFETIMES["count"], [20] * N_SLOTS, 8)
    buffers.swept = 0
    sizes = []
    for n in range(400 if COMPILED else 120):
        buffers.arrive(buffers.choice.choice([None, 10]), 1)
        if n % 3 == 0:
            slot = n % N_SLOTS
            buffers.close(slot)
            buffers.open(slot, buffers.choice.choice([1, 5, 20]))
        sizes.append(buffers.results.layout.blocks[USED])
    assert buffers.results.layout.above[USED] != NEVER, "a sweep is under way"
    assert max(sizes[len(sizes) // 2 :]) <= 1.5 * max(sizes[: len(sizes) // 2])


def test_results_are_what_they_were_after_load() -> None:
    buffers = Buffers(LIFETIMES["both"], [3, 8], 5)
    for n in range(120 if COMPILED else 60):
        buffers.arrive(buffers.choice.choice([None, 5]), 1)
        if n % 20 == 0:
            other = Results(buffers.results.policy)
            other.load(buffers.results.state())
            buffers.results = other


def test_a_full_buffer_asks_for_the_room_it_needs() -> None:
    """A buffer of 32 messages once asked, for ever, for room that it was never given."""
    buffers = Buffers(Lifetime(None, None), [200, 1, 1], 1)
    for _ in range(150):
        buffers.arrive(None, 1)


def test_marks_count_no_further_than_they_can() -> None:
    buffers = Buffers(LIFETIMES["count"], [2**31 - 1], 4)
    for _ in range(25):
        buffers.arrive(None, 1)
    buffers.results.layout.entries["mark"] |= MOST_MARK
    for _ in range(25):
        buffers.arrive(None, 1)
    assert (buffers.results.layout.entries["mark"] >= 0).all()


def test_a_holder_of_many_is_told_of_all_that_leave_at_once() -> None:
    buffers = Buffers(LIFETIMES["age"], [100, 100, 3], 2)
    for _ in range(90):
        buffers.arrive(None, 0)
    buffers.arrive(None, 1000)
    assert all(len(shown) <= 1 for shown in buffers.shown.values())


def test_a_long_stream_settles_in_memory() -> None:
    """One subscription over a stream many times as long as its window, with others coming and going."""
    broker = nc.Broker(nc.Space((0, 0, 100, 100), metric="euclidean"), nc.Window(count=50))
    broker.subscribe("stays", nc.Nearest(5, 5, "a", k=5))
    rng = np.random.default_rng(1)
    n_bytes = []
    for batch in range(160 if COMPILED else 30):
        places = {"lon": rng.uniform(0, 100, 50), "lat": rng.uniform(0, 100, 50)}
        ids = np.arange(50) + 50 * batch
        broker.publish(pa.table({"id": ids, **places, "text": ["a"] * 50, "ts": ids}))
        broker.subscribe_many([(f"{batch}-{i}", nc.Nearest(5, 5, "a", k=3), 50 * batch + 75) for i in range(10)])
        n_bytes.append(broker.stats()["engines"]["nearest"]["bytes"])
    assert n_bytes[-1] <= 2 * max(n_bytes[: len(n_bytes) // 4])


@pytest.mark.parametrize("kind", ["topk", "any", "all"])
def test_moves_settle_in_memory_while_no_message_comes(kind: str) -> None:
    weights = nc.Weights.fit(["a b", "a", "c"])
    broker = nc.Broker(nc.Space((0, 0, 100, 100), metric="euclidean"), nc.Window(count=200, age=10_000), weights)
    rng = np.random.default_rng(2)
    ids = np.arange(200)
    places = {"lon": rng.uniform(0, 100, 200), "lat": rng.uniform(0, 100, 200)}
    broker.publish(pa.table({"id": ids, **places, "text": ["a b"] * 200, "ts": ids}))
    query = nc.TopK(5, 5, "a b", k=3) if kind == "topk" else nc.Nearest(5, 5, "a b", k=3, match=kind)
    broker.subscribe_many([(i, query) for i in range(20)])
    n_bytes = []
    for _ in range(80 if COMPILED else 4):
        goals = {"id": rng.integers(0, 20, 250), "lon": rng.uniform(0, 100, 250), "lat": rng.uniform(0, 100, 250)}
        broker.move_many(pa.table(goals))
        n_bytes.append(broker.stats()["engines"]["topk" if kind == "topk" else "nearest"]["bytes"])
    assert n_bytes[-1] <= 1.25 * max(n_bytes[: len(n_bytes) // 4])


@pytest.mark.parametrize("k", [1, 2, 20, 1000])
def test_the_cost_model_keeps_more_the_more_a_search_costs(k: int) -> None:
    most = k + max(3 * k // 2, 8)
    kept = [worth_keeping(k, most, cost) for cost in (0.0, 1e3, 1e5, 1e7, np.inf)]
    assert kept == sorted(kept)
    assert k < kept[0] < most or k < 20
    assert kept[-1] == most


@pytest.mark.parametrize("k", [1, 2, 20, 1000])
def test_a_range_reaches_farther_the_more_a_search_costs(k: int) -> None:
    most = k + max(3 * k // 2, 8)
    covered = [worth_covering(k, most, cost) for cost in (0.0, 1e4, 1e6, 1e8, 1e12)]
    assert covered == sorted(covered)
    assert covered[0] == k + 1
    assert covered[-1] == most


def test_the_range_is_that_of_the_least_cost() -> None:
    k, most, cost = 10, 25, 20_000.0
    values = {n: n * (80 + k * (1 + np.log(n / k))) + cost * 2 * n / updates_until_short(k, n) for n in range(11, 26)}
    assert worth_covering(k, most, cost) == min(values, key=lambda n: values[n])


def test_a_walk_that_goes_up_as_often_as_down_takes_as_long_as_one_that_is_played() -> None:
    choice = random.Random(2)
    k, n, spent = 5, 8, []
    for _ in range(2000):
        at, steps = n, 0
        while at >= k:  # reflected at twice what it begins with, above k - 1
            at += -1 if at >= 2 * n or choice.random() < 0.5 else 1
            steps += 1
        spent.append(steps)
    assert 0.5 < np.mean(spent) / updates_until_short(k, n) < 2.0


@pytest.mark.parametrize("k", [1, 2, 10, 20, 50, 1000])
def test_an_evaluation_looks_for_what_the_cost_model_keeps(k: int) -> None:
    """Some more than k and never more than a buffer may hold; as many as it may where a strategy says how many."""
    for strategy, share in ((COST, 0.0), (KMAX, 3.0), (RATIO, 0.9)):
        for spare in (True, False):
            policy = Policy(1000, spare, strategy, share, spare)
            limit, most = search_limit(k, policy), buffer_limit(k, policy)
            assert limit <= most
            assert limit == most or (strategy == COST and spare)
            assert limit >= k + 8 if spare and strategy == COST else limit >= k
    assert search_limit(k, Policy(1000, True, COST, 0.0, True)) >= worth_keeping(k, k + max(3 * k // 2, 8), 25_000.0)


def test_a_walk_that_is_drawn_back_takes_as_long_as_one_that_is_played() -> None:
    choice = random.Random(1)
    spent = []
    for _ in range(400):
        n, turns = 24, 0.0
        while n >= 20:
            turns += 1.0 / (24 + n)
            n += 1 if choice.random() < 24 / (24 + n) else -1
        spent.append(turns)
    assert abs(np.mean(spent) / turns_until_short(20, 24) - 1.0) < 0.15
