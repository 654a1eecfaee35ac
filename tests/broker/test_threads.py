"""One broker, several threads: updates, results and snapshots are the same whatever their number."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compare import identical
from contract.contenders import Town
from strategies import METHODS, Event, Seeded, StreamMaker, make_setting

import nearcast as nc
from nearcast.engines.parted import PartedEngine, Workers, part_of
from nearcast.engines.topk import TopKSkype
from nearcast.errors import InvalidInput
from nearcast.model.kinds import LABELS

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
N_SEEDS, N_EVENTS, N_WAVES = (5, 120, 8) if COMPILED else (2, 40, 2)
SPACE = nc.Space((0, 0, 16, 16), "euclidean")
WINDOWS = [nc.Window(count=100), nc.Window(age=1.5), None]


@pytest.fixture(autouse=True)
def _no_call_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads take part in every call, and snapshots need not outlive the machine."""
    monkeypatch.setattr("nearcast.engines.parted.engine.FEW", 0)
    monkeypatch.setattr(os, "fsync", lambda file: None)


def kinds_in(window: nc.Window | None) -> list[str]:
    return [label for label in LABELS if window is not None or label != "topk"]


def waves(town: Town, window: nc.Window | None) -> Iterator[Event]:
    """Subscriptions of all kinds come, move and go; messages come in batches and one by one."""
    kinds, n = kinds_in(window), 0
    for wave in range(N_WAVES):
        most = town.random.choice([1, 3, 20])
        queries = [(n + i, town.query(kinds[(n + i) % len(kinds)], most)) for i in range(town.random.choice([1, 60]))]
        n += len(queries)
        moves: list[dict[str, Any]] = []
        for id in town.random.sample(range(n), min(n, 9)):
            (x, y), is_region = town.place(), kinds[id % len(kinds)] == "within"
            moves.append({"id": id, "region": [x, y, x + 4, y + 4]} if is_region else {"id": id, "lon": x, "lat": y})
        messages = list(town.messages(60, 60 * wave))
        yield Event("subscribe", queries[0])
        yield Event("subscribe_many", (queries[1:],))
        yield Event("publish", (messages[:1],))
        yield Event("publish", (messages[1:],))
        yield Event("move_many", (moves,))
        yield Event("subscribe", (moves[0]["id"], town.query("within")), {"replace": True})
        yield Event("unsubscribe_many", (town.random.sample(range(n), n // 5),))
        if window is not None:
            yield Event("update", (list(town.messages(40, 60 * wave + 35)),))
            yield Event("retract", (60 * wave + 74,))
        yield Event("advance", (600 * (wave + 1),))
        if wave == N_WAVES // 2:
            yield Event("reweigh", (nc.Weights.fit([" ".join(town.some_words(6)) for _ in range(9)]),))


def happen(broker: nc.Broker, event: Event) -> list[nc.Update]:
    method: Any = getattr(broker, event.method)
    return list(method(*event.arguments, **event.named))


@pytest.mark.parametrize("window", WINDOWS, ids=repr)
def test_updates_do_not_depend_on_threads_nor_on_restores(window: nc.Window | None, tmp_path: Path) -> None:
    town = Town(31)
    one, two, three, stopped = (nc.Broker(SPACE, window, threads=n) for n in (1, 2, 3, 1))
    threads, n_told = Seeded(7), 0
    for event in waves(town, window):
        expected = happen(one, event)
        n_told += len(expected)
        for broker in (two, three):
            identical(happen(broker, event), expected)
        stopped.snapshot(tmp_path / "broker")
        n = threads.pick((None, 1, 2, 3))
        before, stopped = stopped.threads, nc.Broker.restore(tmp_path / "broker", threads=n)
        assert stopped.threads == (n or before)
        identical(happen(stopped, event), expected)
    for broker in (two, three, stopped):
        broker.check()
        assert broker.subscription_ids == one.subscription_ids
        for id in one.subscription_ids.to_pylist():
            assert broker.results(id) == one.results(id)
        for message in town.messages(20, 10_000):
            assert broker.match(message) == one.match(message)
        assert broker.export_subscriptions(range(60)).keys() == one.export_subscriptions(range(60)).keys()
    assert n_told > 100


@pytest.mark.parametrize("seed", range(N_SEEDS))
def test_streams_of_ties_and_odd_values(seed: int) -> None:
    source = Seeded(1000 + seed)
    setting = make_setting(source)
    maker, like = StreamMaker(source, setting), setting.broker()
    given = (like.space, like.window, like.parts.context.vocabulary.weights)
    brokers = [nc.Broker(*given, analyzer=like.analyzer, threads=n) for n in (1, 2, 3)]
    for at in range(N_EVENTS):
        event = maker.make("subscribe" if at < 8 else source.pick(METHODS))
        answers: list[Any] = []
        for broker in brokers:
            try:
                answers.append(list(event.happen_to(broker) or ()))
            except InvalidInput as error:
                answers.append(str(error))
            broker.check()
        assert answers[0] == answers[1] == answers[2], event


@pytest.mark.parametrize("window", [WINDOWS[0], None], ids=repr)
def test_subscriptions_go_from_broker_to_broker(window: nc.Window | None) -> None:
    town, kinds = Town(4), kinds_in(window)
    one, two, alone = (nc.Broker(SPACE, window, threads=n) for n in (2, 3, 1))
    queries = [(n, town.query(kinds[n % len(kinds)])) for n in range(90)]
    one.subscribe_many(queries)
    alone.subscribe_many(queries)
    for n in range(4):
        messages = list(town.messages(50, 50 * n))
        said = [update for broker in (one, two) for update in broker.publish(messages)]
        assert sorted(said, key=repr) == sorted(alone.publish(messages), key=repr)
        ids = range(20 * n, 20 * n + 20)
        two.adopt(one.export_subscriptions(ids))
        one.unsubscribe_many(ids)
        one.check()
        two.check()


@pytest.mark.parametrize("n", [2, 3, 4, 7])
def test_parts_are_even(n: int) -> None:
    """Also of slots that follow one another, or at any distance from one another."""
    for step in range(1, 65):
        counts = np.bincount(part_of(np.arange(0, 20_000 * step, step), n), minlength=n)
        assert counts.size == n
        assert counts.max() - counts.min() <= 0.01 * 20_000


def test_stats_are_of_all_parts() -> None:
    town = Town(8)
    brokers = [nc.Broker(SPACE, WINDOWS[0], threads=n) for n in (1, 3)]
    queries = [(n, town.query(LABELS[n % 4])) for n in range(400)]
    messages = list(town.messages(300))
    for broker in brokers:
        broker.subscribe_many(queries)
        broker.publish(messages)
    one, three = (broker.stats() for broker in brokers)
    for kind in LABELS:
        assert three["engines"][kind].keys() == one["engines"][kind].keys() | {"parts"}
        assert three["engines"][kind]["parts"] == 3
    for kind, count in (("within", "messages"), ("within", "matched"), ("similar", "arrivals"), ("similar", "answers")):
        assert three["engines"][kind][count] == one["engines"][kind][count] > 0
    for kind in ("topk", "nearest"):
        for count in ("kept", "updates", "buffered"):
            assert three["engines"][kind][count] == one["engines"][kind][count] > 0
    assert three["index"]["searches"] == one["index"]["searches"] > 0
    assert three["engines"]["within"]["tree"]["leaves"] >= 3


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", True, 10**6])
def test_threads_are_a_whole_number(threads: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="threads"):
        nc.Broker(SPACE, threads=threads)
    nc.Broker(SPACE).snapshot(tmp_path / "broker")
    with pytest.raises(InvalidInput, match="threads"):
        nc.Broker.restore(tmp_path / "broker", threads=threads)


def test_what_stops_one_part_breaks_the_broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All parts are over when the error is raised, and nothing is answered from what they left behind."""
    town = Town(2)
    broker = nc.Broker(SPACE, WINDOWS[0], threads=3)
    broker.subscribe_many([(n, town.query("topk")) for n in range(60)])
    broker.snapshot(tmp_path / "before")
    published, done = TopKSkype.publish, list[int]()

    def publish(engine: TopKSkype, steps: Any) -> Any:
        if not done:
            done.append(0)
            raise MemoryError
        changes = published(engine, steps)
        done.append(1)
        return changes

    messages = list(town.messages(40))
    with monkeypatch.context() as patched:
        patched.setattr(TopKSkype, "publish", publish)
        with pytest.raises(MemoryError):
            broker.publish(messages)
    assert done.count(1) == 2
    with pytest.raises(nc.BrokenBroker, match="publish was stopped by MemoryError"):
        broker.stats()
    again = nc.Broker.restore(tmp_path / "before")
    again.publish(messages)
    again.check()


def test_a_child_of_a_fork_starts_threads_of_its_own() -> None:
    town = Town(3)
    broker, other = (nc.Broker(SPACE, WINDOWS[0], threads=2) for _ in range(2))
    for one in (broker, other):
        one.subscribe_many([(n, town.query("nearest")) for n in range(40)])
    messages = list(town.messages(40))
    broker.publish(messages)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12: a fork beside threads
        child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            broker.publish(list(town.messages(40, 100)))
            broker.check()
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    broker.publish(list(town.messages(40, 100)))
    broker.check()


def test_workers_wait_for_all_tasks() -> None:
    workers, done = Workers(3), list[int]()

    def fail() -> int:
        raise KeyError("first")

    def late() -> int:
        done.append(1)
        return 1

    assert workers.run([late, late, late]) == [1, 1, 1]
    for tasks in ([fail, late, late], [late, fail, late]):
        done.clear()
        with pytest.raises(KeyError, match="first"):
            workers.run(tasks)
        assert done == [1, 1]


def test_one_thread_costs_nothing() -> None:
    broker = nc.Broker(SPACE, WINDOWS[0])
    assert not any(isinstance(engine, PartedEngine) for engine in broker.parts.engines.values())


def test_messages_that_pass_one_by_one_are_seen_by_every_part() -> None:
    broker = nc.Broker(nc.Space((0, 0, 9, 9), metric="euclidean"), threads=2)
    for id in range(4):
        broker.subscribe(id, nc.Within((0, 0, 9, 9), "tea"))
    broker.publish(nc.Message(-1, 1, 1, "tea"))
    told = broker.publish(nc.Message(-2, 1, 1, "tea"))
    assert [update.subscription for update in told] == [0, 1, 2, 3]
