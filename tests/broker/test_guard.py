"""One call at a time, and no event by halves: threads, interruptions, exhausted memory, forks."""

from __future__ import annotations

import copy
import os
import random
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from contract.contenders import Town

import nearcast as nc
from nearcast.model.kinds import LABELS, Kind
from nearcast.window.live import LiveMessages

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
N_INTERRUPTIONS = 250 if COMPILED else 20
SPACE = nc.Space((0, 0, 16, 16), "euclidean")
METHODS: dict[str, Callable[[nc.Broker], Any]] = {
    "subscribe": lambda broker: broker.subscribe(-1, nc.Within(nc.Box(0, 0, 1, 1), "a")),
    "subscribe_many": lambda broker: broker.subscribe_many([]),
    "unsubscribe": lambda broker: broker.unsubscribe(0),
    "unsubscribe_many": lambda broker: broker.unsubscribe_many([]),
    "move": lambda broker: broker.move(0, lon=1, lat=1),
    "move_many": lambda broker: broker.move_many([]),
    "publish": lambda broker: broker.publish([]),
    "update": lambda broker: broker.update([]),
    "retract": lambda broker: broker.retract(0),
    "advance": lambda broker: broker.advance(0),
    "reweigh": lambda broker: broker.reweigh(nc.Weights()),
    "subscriptions": lambda broker: broker.subscriptions(),
    "subscription": lambda broker: broker.subscription(0),
    "map": lambda broker: broker.map(),
    "results": lambda broker: broker.results(0),
    "match": lambda broker: broker.match(nc.Message("m", 1, 1, "a")),
    "estimate": lambda broker: broker.estimate(nc.Nearest(1, 1, "a")),
    "explain": lambda broker: broker.explain(0, 0),
    "stats": lambda broker: broker.stats(),
    "check": lambda broker: broker.check(),
    "snapshot": lambda broker: broker.snapshot("nowhere"),
    "subscription_ids": lambda broker: broker.subscription_ids,
    "export_subscriptions": lambda broker: broker.export_subscriptions([]),
    "adopt": lambda broker: broker.adopt({}),
}


class Interrupted(Exception):
    pass


def interrupt(number: int, frame: Any) -> None:
    raise Interrupted


@pytest.fixture
def alarm() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def make_broker(town: Town, n: int = 40) -> nc.Broker:
    broker = nc.Broker(SPACE, nc.Window(count=60))
    broker.subscribe_many([(i, town.query(LABELS[i % 4])) for i in range(n)])
    broker.publish(list(town.messages(100, 0)))
    return broker


def shown(broker: nc.Broker) -> Any:
    """All that callers can see of a broker, now or later: a move may show in results only after more messages."""
    ids = sorted(broker.subscription_ids.to_pylist())
    stats = broker.stats()
    return stats["messages"], stats["clock"], [(id, place_of(broker, id), broker.results(id)) for id in ids]


def place_of(broker: nc.Broker, id: int) -> tuple[float, ...]:
    kind, slot = broker.parts.registry.where(broker.parts.registry.find(id))
    row = broker.parts.tables[kind].rows[slot]
    return tuple(float(row[name]) for name in (("x0", "y0", "x1", "y1") if kind == Kind.WITHIN else ("x", "y")))


def test_public_methods_are_all_tested_here() -> None:
    public = {name for name in dir(nc.Broker) if not name.startswith("_")}
    assert public == set(METHODS) | {"parts", "restore"}


def test_threads_wait_for_each_other() -> None:
    """Answers are those of some order of the calls: the one in which they were let in."""
    order: list[tuple[str, Any, list[nc.Update]]] = []

    class Recording(nc.Broker):
        def _take_in(self, *given: Any) -> Any:
            taken = super()._take_in(*given)
            order.append(("publish", current.messages, [update for said in taken[0] for update in said]))
            return taken

        def _subscribe(self, subscriptions: Any, *given: Any) -> nc.Updates:
            updates = super()._subscribe(subscriptions, *given)
            order.append(("subscribe_many", subscriptions, list(updates)))
            return updates

        def _move(self, *given: Any) -> Any:
            order.append(("move", current.move, current.said))
            return super()._move(*given)

    current = threading.local()
    broker = Recording(SPACE, nc.Window(count=50))
    failures: list[BaseException] = []

    def hammer(worker: int) -> None:
        try:
            town, first = Town(worker), worker * 10_000
            end = time.monotonic() + (3 if COMPILED else 1)
            for n in range(10_000):
                if time.monotonic() > end:
                    break
                point = first + 4 * n + 1
                broker.subscribe_many([(first + 4 * n + i, town.query(LABELS[i])) for i in range(4)])
                current.messages = list(town.messages(3, first + 3 * n))
                broker.publish(current.messages)
                current.move = (point, {"lon": town.random.uniform(0, 16), "lat": 3.0})
                current.said = []
                current.said += broker.move(point, **current.move[1])
                broker.results(point)
                broker.stats()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=hammer, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    broker.check()
    alone = nc.Broker(SPACE, nc.Window(count=50))
    for method, given, said in order:
        if method == "move":
            assert list(alone.move(given[0], **given[1])) == said
        else:
            assert list(getattr(alone, method)(given)) == said
    assert shown(alone) == shown(broker)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_an_interrupted_call_is_absent_or_applied(alarm: None, tmp_path: Path) -> None:
    random_ = random.Random(5)
    town = Town(3)
    twin = make_broker(town)
    path = tmp_path / "snapshot"
    twin.snapshot(path)
    broker = nc.Broker.restore(path)
    outcomes = {"absent": 0, "applied": 0, "broken": 0, "not interrupted": 0}
    typical = 0.002
    for n in range(N_INTERRUPTIONS):
        event = random_.choice(("publish", "publish", "subscribe_many", "move_many", "unsubscribe_many"))
        first = 1000 + 100 * n
        size = random_.randint(1, 60)
        argument: Any
        if event == "publish":
            argument = list(town.messages(size, first))
        elif event == "subscribe_many":
            argument = [(first + i, town.query(LABELS[i % 4])) for i in range(size // 6 + 1)]
        elif event == "move_many":
            argument = [{"id": 4 * i + 1, "lon": town.random.uniform(0, 16), "lat": 3.0} for i in range(size // 6 + 1)]
        else:
            argument = [id for id in broker.subscription_ids.to_pylist() if id >= 1000][: size // 6]
        begun = time.perf_counter()
        try:
            signal.setitimer(signal.ITIMER_REAL, random_.uniform(1e-5, typical))
            getattr(broker, event)(argument)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Interrupted:
            pass
        else:
            typical = 0.8 * typical + 0.2 * (time.perf_counter() - begun)
            getattr(twin, event)(argument)
            outcomes["not interrupted"] += 1
            continue
        try:
            broker.check()
        except nc.BrokenBroker:
            outcomes["broken"] += 1
            twin.snapshot(path)
            broker = nc.Broker.restore(path)
            continue
        if shown(broker) == shown(twin):
            outcomes["absent"] += 1
        else:
            getattr(twin, event)(argument)
            assert shown(broker) == shown(twin), f"{event} is there by halves"
            outcomes["applied"] += 1
    broker.check()
    assert shown(broker) == shown(twin)
    interrupted = N_INTERRUPTIONS - outcomes["not interrupted"]
    assert interrupted > N_INTERRUPTIONS // 10
    assert outcomes["broken"] <= interrupted // 4
    assert outcomes["absent"]
    assert outcomes["applied"]


def test_a_signal_waits_for_the_event_and_a_second_one_does_not(alarm: None, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = make_broker(Town(1))
    released = LiveMessages.release
    arrived: list[int] = []

    def release(live: LiveMessages, steps: Any) -> None:
        for _ in range(n_signals):
            signal.raise_signal(signal.SIGALRM)
        arrived.append(live.last)
        released(live, steps)

    monkeypatch.setattr(LiveMessages, "release", release)
    n_signals = 1
    before = broker.stats()["messages"]["sequence"]
    with pytest.raises(Interrupted):
        broker.publish(nc.Message(5000, 1, 1, "word1", ts=10**9))
    assert arrived == [before + 1]
    assert broker.stats()["messages"]["sequence"] == before + 1
    assert signal.getsignal(signal.SIGALRM) is interrupt
    n_signals = 2
    with pytest.raises(Interrupted):
        broker.publish(nc.Message(5001, 1, 1, "word1", ts=10**9))
    assert signal.getsignal(signal.SIGALRM) is interrupt
    with pytest.raises(nc.BrokenBroker, match="publish was stopped by Interrupted"):
        broker.stats()


def test_a_handler_that_was_set_meanwhile_stays(alarm: None, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = make_broker(Town(1))
    monkeypatch.setattr(LiveMessages, "release", lambda live, steps: signal.signal(signal.SIGALRM, signal.SIG_IGN))
    broker.advance(10**9)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_IGN


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_broken_broker_answers_nothing(method: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broker = make_broker(Town(1), 8)
    broker.snapshot(tmp_path / "before")

    def fail(live: LiveMessages, steps: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(LiveMessages, "release", fail)
        with pytest.raises(MemoryError):
            broker.publish(nc.Message(5000, 1, 1, "word1", ts=10**9))
    with pytest.raises(nc.BrokenBroker, match=r"publish was stopped by MemoryError .* Broker\.restore") as raised:
        METHODS[method](broker)
    assert raised.value.call == "publish"
    again = nc.Broker.restore(tmp_path / "before")
    again.publish(nc.Message(5000, 1, 1, "word1", ts=10**9))
    again.check()


def test_decoding_never_breaks_a_broker() -> None:
    broker = make_broker(Town(1))
    before = shown(broker)

    def rows(kind: type[BaseException]) -> Iterator[Any]:
        yield nc.Message(5000, 1, 1, "word1", ts=10**9)
        raise kind

    for kind in (KeyboardInterrupt, MemoryError, RuntimeError):
        for method in (broker.publish, broker.subscribe_many, broker.move_many, broker.unsubscribe_many):
            with pytest.raises(kind):
                method(rows(kind))
    assert shown(broker) == before
    broker.check()


def test_a_call_from_inside_a_call_is_refused(alarm: None) -> None:
    broker = make_broker(Town(1))
    before = shown(broker)

    def rows() -> Iterator[Any]:
        broker.results(0)
        yield from ()

    with pytest.raises(nc.NestedCall, match="under way in the same thread"):
        broker.publish(rows())
    assert shown(broker) == before
    other = make_broker(Town(2))
    assert len(broker.publish(message for message in [] if other.stats())) == 0  # another broker may be called


def test_a_fork_leaves_no_lock_behind() -> None:
    """The child has a broker of its own; if another thread was writing, it is broken, but it never waits for ever."""
    broker = make_broker(Town(1))
    stop = threading.Event()

    def write() -> None:
        town = Town(7)
        for n in range(10**6):
            if stop.is_set():
                break
            broker.publish(list(town.messages(50, 10_000 + 50 * n)))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(10):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12: a fork beside threads
                child = os.fork()
            if child == 0:
                signal.alarm(60)
                try:
                    broker.stats()
                except nc.BrokenBroker:
                    os._exit(3)
                except BaseException:
                    os._exit(1)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) in (0, 3)
    finally:
        stop.set()
        thread.join()
    broker.check()


def test_a_broker_is_not_copied() -> None:
    with pytest.raises(TypeError, match="write a snapshot and restore it"):
        copy.deepcopy(make_broker(Town(1), 4))
