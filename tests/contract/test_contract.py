"""What every engine must do, whatever it files where."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compare import identical
from strategies import Event, Seeded

import nearcast as nc
from contract.contenders import CONTENDERS, Contender, Judge, Town, broker_class, engine_of, made, stream, table_of
from nearcast.columns.regions import region_rows
from nearcast.engines.contract import Changes
from nearcast.errors import InvalidInput
from nearcast.model.update import Update

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
KIND = os.environ.get("CONTRACT_KIND")  # only engines of this kind, with two seeds: `make test-within` and its like
N_SEEDS = 6 if COMPILED and KIND is None else 2
N_EVENTS = 100
N_SUBSCRIPTIONS, N_MESSAGES, N_WORDS = (200, 800, 100) if COMPILED else (25, 120, 12)
WINDOWS = [nc.Window(count=100), nc.Window(age=1.5), nc.Window(count=150, age=1), nc.Window(count=40, age=10)]

CHOSEN = [contender for contender in CONTENDERS if KIND in (None, contender.kind)]

every_engine = pytest.mark.parametrize("contender", CHOSEN, ids=repr)
every_index = pytest.mark.parametrize("contender", [one for one in CHOSEN if one.name != "oracle"], ids=repr)
every_oracle = pytest.mark.parametrize("contender", [one for one in CHOSEN if one.name == "oracle"], ids=repr)
every_notifier = pytest.mark.parametrize(
    "contender", [contender for contender in CHOSEN if contender.kind in ("within", "similar")], ids=repr
)


@pytest.fixture(autouse=True)
def _no_call_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads take part in every call of an engine that has parts."""
    monkeypatch.setattr("nearcast.engines.parted.engine.FEW", 0)


def seeds_of(contender: Contender) -> range:
    """Fewer for engines in parts: each part is an engine that more streams go through by itself."""
    return range(N_SEEDS if contender.n_parts == 1 else 2)


def told(broker: nc.Broker, event: Event) -> tuple[list[Update], str | None]:
    """The updates of an event, and the field for which it was refused."""
    try:
        return list(event.happen_to(broker) or ()), None
    except InvalidInput as error:
        return [], error.field


def ids_of(events: Iterable[Event]) -> set[Any]:
    return {event.arguments[0] for event in events if event.method == "subscribe"}


def results(broker: nc.Broker, id: Any) -> Any:
    try:
        return broker.results(id)
    except InvalidInput:
        return None


def same_results(ours: nc.Broker, theirs: nc.Broker, ids: Iterable[Any]) -> None:
    for id in ids:
        assert results(ours, id) == results(theirs, id), f"results of {id!r}"


def follow_streams(contender: Contender, n_streams: int, n_events: int) -> None:
    """Every event of random streams is refused or answered as by the brute force."""
    for seed in range(n_streams):
        setting, events = stream(seed, contender, n_events)
        ours, judge = made(broker_class(contender), setting), made(Judge, setting)
        for event in events:
            (updates, refused), (expected, also_refused) = told(ours, event), told(judge, event)
            assert refused == also_refused, f"seed {seed}, {event}"
            identical(updates, expected)
            ours.check()
            same_results(ours, judge, ids_of(events))


@every_engine
def test_updates_are_those_of_the_brute_force(contender: Contender) -> None:
    follow_streams(contender, len(seeds_of(contender)), N_EVENTS)


@every_engine
@pytest.mark.parametrize("window", WINDOWS, ids=repr)
def test_a_town(contender: Contender, window: nc.Window) -> None:
    town = Town(WINDOWS.index(window), N_WORDS)
    queries = [(n, town.query(contender.kind)) for n in range(N_SUBSCRIPTIONS)]
    messages = list(town.messages(N_MESSAGES))
    brokers = [kind(town.space, window) for kind in (broker_class(contender), Judge)]
    third = N_MESSAGES // 3
    said: list[list[Update]] = [[], []]
    for broker, updates in zip(brokers, said, strict=True):
        updates += broker.subscribe_many(queries[: N_SUBSCRIPTIONS // 2])
        updates += broker.publish(messages[:third])
        updates += broker.subscribe_many(queries[N_SUBSCRIPTIONS // 2 :])
        broker.unsubscribe_many(range(0, N_SUBSCRIPTIONS, 7))
        updates += broker.publish(messages[third:])
        broker.check()
    assert len(said[0]) > N_SUBSCRIPTIONS
    identical(*said)
    same_results(*brokers, range(N_SUBSCRIPTIONS))
    n_arrivals = brokers[0].stats()["messages"]["sequence"]
    for broker in brokers:
        work = engine_of(broker, contender).stats()
        candidates = work.get("candidates", work.get("tried"))
        assert 0 < candidates <= n_arrivals * N_SUBSCRIPTIONS


def sequences(broker: nc.Broker) -> dict[Any, int]:
    """Of the live messages, by id."""
    table = broker.parts.context.live.table
    slots = table.live_slots
    return dict(zip(table.ids.to_arrow(slots).to_pylist(), table.layout.rows["sequence"][slots].tolist(), strict=True))


@every_oracle
def test_applying_updates_gives_the_results(contender: Contender) -> None:
    """Other engines tell the same updates and have the same results over the same streams, as the first test proves."""
    notifies = contender.kind in ("within", "similar")
    for seed in range(N_SEEDS):
        setting, events = stream(seed, contender, N_EVENTS)
        broker = made(broker_class(contender), setting)
        if notifies and setting.lifetime is None:
            continue  # no result is kept
        held: dict[Any, Counter[Any]] = {}
        for event in events:
            before = sequences(broker)
            updates, refused = told(broker, event)
            after = sequences(broker)
            if refused is None and event.method in ("subscribe", "unsubscribe"):
                held[event.arguments[0]] = Counter()
            named = event.arguments[0] if event.method == "retract" else None
            if event.method == "update" and event.arguments[0].id in after:
                named = event.arguments[0].id
            if notifies:  # what expires leaves silently, what is withdrawn does not
                for messages in held.values():
                    for message in [m for m in messages if before.get(m) != after.get(m) and m != named]:
                        del messages[message]
            for update in updates:
                held[update.subscription][update.message] += 1 if update.sign == "+" else -1
            for id, messages in held.items():
                shown = results(broker, id)
                if shown is not None:
                    assert min(messages.values(), default=0) >= 0, f"seed {seed}: {id!r} lost what it never had"
                    assert +messages == Counter(message for message, _ in shown), f"seed {seed}, {event}, {id!r}"


def triples(changes: Changes) -> list[tuple[int, int, int]]:
    """Subscription, message and sign of every change of one event."""
    assert not changes.events.any()
    assert np.array_equal(np.isnan(changes.scores), np.isnan(changes.scores[:1]).repeat(changes.scores.size))
    return sorted(zip(changes.slots.tolist(), changes.messages.tolist(), changes.signs.tolist(), strict=True))


def found(engine: Any, slots: Iterable[int]) -> dict[tuple[int, int], float]:
    """Scores by subscription and message, asked one by one."""
    pairs: dict[tuple[int, int], float] = {}
    for slot in slots:
        messages, scores = engine.result(slot)
        pairs |= {(slot, message): score for message, score in zip(messages.tolist(), scores.tolist(), strict=True)}
    return pairs


def other_region(town: Town) -> Any:
    (x, y), side = town.place(), town.random.choice([1.0, 4.0, 8.0])
    return town.random.choice(
        [nc.Box(x, y, x + side, y + side), nc.Circle(x, y, side), nc.Polygon([(x, y), (x + side, y), (x, y + side)])]
    )


@every_notifier
@pytest.mark.parametrize("window", [WINDOWS[0], WINDOWS[1], None], ids=repr)
def test_many_at_once_fill_and_move_like_one_by_one(contender: Contender, window: nc.Window | None) -> None:
    """`fill` and `move` emit what `result` finds; polygons and circles leave by the points that they had."""
    town = Town(11)
    broker = broker_class(contender)(town.space, window)
    broker.subscribe_many([(n, town.query(contender.kind)) for n in range(N_SUBSCRIPTIONS)])
    engine, table = engine_of(broker, contender), table_of(broker, contender)
    n_said = 0
    for n in range(4):
        broker.publish(town.messages(N_MESSAGES // 4, n * N_MESSAGES // 4))
        slots = table.used_slots[n % 2 :: 2].copy()
        before = found(engine, slots.tolist())
        assert triples(engine.fill(slots)) == [(*pair, 1) for pair in sorted(before)]
        if contender.kind == "within":
            goals: Any = region_rows([other_region(town) for _ in slots], broker.space)
        else:
            goals = np.array([town.place() for _ in slots], dtype=np.float64)
        with table.moving(slots, goals) as rows:
            changes = engine.move(slots, rows)
        broker.check()
        after = found(engine, slots.tolist())
        expected = [(*pair, -1) for pair in before.keys() - after] + [(*pair, 1) for pair in after.keys() - before]
        assert triples(changes) == sorted(expected)
        assert window is not None or not expected
        n_said += len(expected)
        for slot, message, sign, score in zip(*(column.tolist() for column in changes[1:]), strict=True):
            assert np.array_equal(score, (before if sign < 0 else after)[slot, message], equal_nan=True)
    assert n_said > 0 or window is None
    for nothing in (engine.fill(slots[:0]), engine.move(slots[:0], table.rows[slots[:0]])):
        assert triples(nothing) == []


@every_notifier
def test_reweighed_engines_answer_with_the_new_weights(contender: Contender) -> None:
    town = Town(12)
    ours, judge = (kind(town.space, nc.Window(count=80)) for kind in (broker_class(contender), Judge))
    queries = [(n, town.query(contender.kind)) for n in range(N_SUBSCRIPTIONS // 2)]
    n_said = 0
    for n in range(3):
        weights = nc.Weights.fit([" ".join(town.some_words(6)) for _ in range(30)])
        messages = list(town.messages(60, 60 * n))
        if n == 0:
            identical(ours.subscribe_many(queries), judge.subscribe_many(queries))
        identical(ours.publish(messages), judge.publish(messages))
        said = list(ours.reweigh(weights))
        identical(said, judge.reweigh(weights))
        n_said += len(said)
        ours.check()
        same_results(ours, judge, range(len(queries)))
    assert bool(n_said) is (contender.kind == "similar")


@every_engine
def test_how_messages_are_cut_into_batches_does_not_matter(contender: Contender) -> None:
    for seed in seeds_of(contender):
        setting, events = stream(seed, contender, N_EVENTS)
        whole, cut = (made(broker_class(contender), setting) for _ in range(2))
        for event in events:
            if event.method == "subscribe":
                assert told(whole, event) == told(cut, event)
        source, expected, said = Seeded(seed), [], []
        for method in ("publish", "update"):
            messages = [event.arguments[0] for event in events if event.method in ("publish", "update")]
            if method == "update" and setting.lifetime is None:
                continue
            expected += getattr(whole, method)(messages)
            while messages:
                n = source.pick((1, 2, 5, 30))
                said += getattr(cut, method)(messages[:n])
                messages = messages[n:]
        identical(expected, said)
        same_results(whole, cut, ids_of(events))
        whole.check()


@every_engine
def test_what_was_removed_leaves_no_trace(contender: Contender) -> None:
    town = Town(5)
    window = nc.Window(count=60)
    ours, never = (broker_class(contender)(town.space, window) for _ in range(2))
    base = [(n, town.query(contender.kind)) for n in range(10)]
    passing = [(100 + n, town.query(contender.kind)) for n in range(30)]
    sizes = []
    for n in range(4):
        messages = list(town.messages(40, 40 * n))
        identical(ours.publish(messages), never.publish(messages))
        if n == 0:
            identical(ours.subscribe_many(base), never.subscribe_many(base))
        ours.subscribe_many(passing)
        assert len(table_of(ours, contender)) == 40
        ours.check()
        assert ours.unsubscribe_many(id for id, _ in passing).rejects == []
        ours.check()
        assert len(table_of(ours, contender)) == len(table_of(never, contender)) == 10
        same_results(ours, never, range(10))
        sizes.append(table_of(ours, contender).nbytes + engine_of(ours, contender).stats()["bytes"])
    assert max(sizes[2:]) <= 1.5 * max(sizes[:2])
    ours.unsubscribe_many(range(10))
    assert len(table_of(ours, contender)) == 0
    ours.check()
    assert not list(ours.publish(town.messages(20, 160)))


@pytest.fixture
def _volatile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots need not outlive the machine: most of the time of many small ones is spent on waiting for the disk."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


def again(broker: nc.Broker, path: Path) -> nc.Broker:
    """The broker, stopped and restored; nothing of it but the file is left."""
    broker.snapshot(path)
    return type(broker).restore(path)


@every_engine
@pytest.mark.usefixtures("_volatile")
def test_restored_before_every_event_of_a_stream(contender: Contender, tmp_path: Path) -> None:
    """It goes on as if it had never stopped; `make fuzz` tries more streams, and restores before some events only."""
    setting, events = stream(100 + CONTENDERS.index(contender), contender, N_EVENTS)
    never, stopped = made(broker_class(contender), setting), made(broker_class(contender), setting)
    for n, event in enumerate(events):
        stopped = again(stopped, tmp_path / "broker")
        if n == N_EVENTS // 2:
            engines = engine_of(stopped, contender), engine_of(never, contender)
            assert type(engines[0]) is type(engines[1])
            assert engines[0].stats().keys() == engines[1].stats().keys()
            same_results(never, stopped, ids_of(events))
            stopped.check()
        (expected, refused), (updates, also_refused) = told(never, event), told(stopped, event)
        assert refused == also_refused, f"{event}"
        identical(expected, updates)
    stopped.check()
    same_results(never, stopped, ids_of(events))


@every_index
@pytest.mark.usefixtures("_volatile")
def test_restored_before_every_event_of_a_crowd(contender: Contender, tmp_path: Path) -> None:
    """Queries of many words and of few come, move and go, many and one at a time; scratch is new for each event.

    Nothing is checked in between: a check may make room that the next event then finds. Oracles have no scratch.
    """
    town = Town(21)
    never, stopped = (broker_class(contender)(town.space, WINDOWS[2]) for _ in range(2))
    n, waves = 0, 6 if COMPILED else 3
    for wave in range(waves):
        most = town.random.choice([1, 1, 3, 20, 60])
        queries = [(n + i, town.query(contender.kind, most)) for i in range(town.random.choice([1, 20, 40]))]
        n += len(queries)
        moves = [
            {"id": id, "region": [x, y, x + 4, y + 4]} if contender.kind == "within" else {"id": id, "lon": x, "lat": y}
            for id in town.random.sample(range(n), min(n, 5))
            for x, y in [town.place()]
        ]
        gone = town.random.sample(range(n), n // 4)
        messages = list(town.messages(40, 40 * wave))
        texts = [" ".join(town.some_words(6)) for _ in range(9)]
        events = [Event("subscribe", query) for query in queries[:7]]
        events += [
            Event("subscribe_many", (queries[7:],)), Event("publish", (messages[:1],)),
            Event("publish", (messages[1:],)), Event("move_many", (moves,)), Event("unsubscribe_many", (gone,)),
            Event("update", (list(town.messages(30, 40 * wave + 25)),)), Event("retract", (40 * wave + 54,)),
            Event("advance", (400 * (wave + 1),)), *([Event("reweigh", (texts,))] if wave == waves // 2 else []),
        ]  # fmt: skip
        for event in events:
            stopped = again(stopped, tmp_path / "broker")
            identical(event.happen_to(never), event.happen_to(stopped))
    stopped.check()
    same_results(never, stopped, range(n))


@every_engine
def test_the_same_events_give_the_same_updates(contender: Contender) -> None:
    setting, events = stream(3, contender, N_EVENTS)
    one, two = (made(broker_class(contender), setting) for _ in range(2))
    assert [told(one, event) for event in events] == [told(two, event) for event in events]


@every_engine
def test_memory_settles_under_churn(contender: Contender) -> None:
    town = Town(9)
    broker = broker_class(contender)(town.space, nc.Window(count=50, age=1))
    sizes = []
    rounds = 60 if COMPILED else 6
    for n in range(rounds):
        broker.subscribe_many([(20 * n + i, town.query(contender.kind)) for i in range(20)])
        broker.publish(town.messages(30, 30 * n))
        if n >= 2:
            broker.unsubscribe_many(range(20 * (n - 2), 20 * (n - 1)))
        sizes.append(table_of(broker, contender).nbytes + engine_of(broker, contender).stats()["bytes"])
    broker.check()
    assert max(sizes[rounds // 2 :]) <= 2 * max(sizes[: rounds // 2])
