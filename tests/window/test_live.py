from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from nearcast.columns.decode_messages import decode_messages
from nearcast.columns.times import FOREVER
from nearcast.model.message import Message
from nearcast.space.space import Space
from nearcast.text.vocabulary import Vocabulary
from nearcast.text.weights import Weights
from nearcast.window.live import ADMITTED, DUPLICATE, LATE, NOBODY, TOO_FAR_AHEAD, UNSET, LiveMessages
from nearcast.window.window import Window, is_live

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
PLANE = Space((0, 0, 8, 8), metric="euclidean")


class Watched:
    """Live messages, and what happened to every message given."""

    def __init__(self, window: Window | None) -> None:
        self.live = LiveMessages(PLANE, window, Vocabulary())

    def publish(self, *messages: Message) -> list[tuple[int, list[Any]]]:
        """Status and expired ids of every row; a row that is no event has none."""
        batch = decode_messages(messages, PLANE, self.live.table.ids.type)
        assert not batch.rejects
        said: list[tuple[int, list[Any]]] = []
        steps, status = self.live.admit(batch)
        assert status.size == len(messages)
        expired = dict(zip(steps.rows.tolist(), self._expired(steps), strict=True))
        events = {row: i for i, row in enumerate(steps.rows.tolist())}
        for row, code in enumerate(status.tolist()):
            assert (row in events) == (code in (ADMITTED, LATE))
            if row in events:
                assert (steps.arrivals[events[row]] != NOBODY) == (code == ADMITTED)
            said.append((code, expired.get(row, [])))
        self.live.release(steps)
        self.check()
        return said

    def advance(self, ts: int) -> list[Any]:
        steps = self.live.advance(ts)
        expired = [id for ids in self._expired(steps) for id in ids]
        self.live.release(steps)
        self.check()
        return expired

    def _expired(self, steps: Any) -> list[list[Any]]:
        starts = steps.expired_start.tolist()
        assert len(starts) == steps.rows.size + 1
        ids = [self.live.table.ids.value(slot) for slot in steps.expired.tolist()]
        return [sorted(ids[a:b]) for a, b in pairwise(starts)]

    def check(self) -> None:
        live, rows = self.live, self.live.table.layout.rows
        for slot in live.table.live_slots.tolist() if live.window is not None else ():
            assert is_live(rows[slot], live.last, live.clock, live.limits.newest)
        live.index.check(live.table.layout)

    @property
    def ids(self) -> list[Any]:
        return [self.live.table.ids.value(slot) for slot in self.live.table.live_slots.tolist()]


def message(id: Any, ts: int | None = None, expires: int | None = None) -> Message:
    return Message(id, 1, 1, "a", ts=ts, expires=expires)


def test_a_count() -> None:
    watched = Watched(Window(count=2))
    assert watched.publish(*(message(n) for n in range(4))) == [
        (ADMITTED, []),
        (ADMITTED, []),
        (ADMITTED, [0]),
        (ADMITTED, [1]),
    ]
    assert watched.ids == [2, 3]
    assert watched.live.last == 4


def test_an_age() -> None:
    watched = Watched(Window(age=1))
    assert watched.publish(message(1, 0), message(2, 500), message(3, 999)) == [(ADMITTED, [])] * 3
    assert watched.publish(message(4, 1000)) == [(ADMITTED, [1])]
    assert watched.advance(1499) == []
    assert watched.advance(1500) == [2]
    assert watched.publish(message(5, 500)) == [(LATE, [])], "500 + 1000 <= 1500"
    assert watched.publish(message(6, 501)) == [(ADMITTED, [])]
    assert watched.live.n_late == 1
    assert watched.live.last == 5, "what is late has no sequence"


def test_own_expiries_always_count() -> None:
    for window in (Window(), Window(count=10), Window(age=100)):
        watched = Watched(window)
        assert watched.publish(message(1, 0, 10), message(2, 9), message(3, 10)) == [
            (ADMITTED, []),
            (ADMITTED, []),
            (ADMITTED, [1]),
        ]
        assert watched.publish(message(4, 5, 10)) == [(LATE, [])]
        assert watched.publish(message(5, 20, 20)) == [(LATE, [])]
        assert watched.live.clock == 20, "a late message moves the clock"
        assert watched.ids == [2, 3]


def test_a_late_message_moves_the_clock_and_so_ends_others() -> None:
    watched = Watched(Window(age=1))
    assert watched.publish(message(1, 0), message(2, 5000, 5000)) == [(ADMITTED, []), (LATE, [1])]


def test_without_an_age_a_message_may_be_as_old_as_can_be() -> None:
    watched = Watched(Window(count=3))
    assert watched.publish(message(1, 10**15), message(2, -(2**61)), message(3, -(2**62))) == [(ADMITTED, [])] * 3
    assert watched.live.table.layout.rows["expires_at"][watched.live.table.live_slots].tolist() == [FOREVER] * 3
    assert watched.advance(2**62 + 1) == []


def test_a_count_past_all_bounds_never_bites() -> None:
    watched = Watched(Window(count=10**30))
    assert watched.publish(message(1), message(2)) == [(ADMITTED, [])] * 2


def test_a_missing_ts_is_the_clock() -> None:
    watched = Watched(Window(age=1))
    assert watched.live.clock == UNSET
    watched.publish(message(1))
    assert watched.live.clock == 0
    watched.advance(700)
    watched.publish(message(2))
    assert watched.live.table.layout.rows["ts"][watched.live.table.live_slots].tolist() == [0, 700]
    assert watched.advance(1000) == [1]


def test_the_clock_never_goes_back() -> None:
    watched = Watched(Window(age=1))
    watched.publish(message(1, 5000))
    assert watched.advance(4000) == []
    assert watched.live.clock == 5000
    watched.publish(message(2, 4500))
    assert watched.live.clock == 5000
    assert watched.advance(5500) == [2]


def test_too_far_ahead() -> None:
    watched = Watched(Window(max_ahead=2))
    assert watched.publish(message(1, 10**12)) == [(ADMITTED, [])], "there is no clock yet"
    assert watched.publish(message(2, 10**12 + 2001), message(3, 10**12 + 2000)) == [
        (TOO_FAR_AHEAD, []),
        (ADMITTED, []),
    ]
    assert watched.live.clock == 10**12 + 2000
    assert watched.publish(message(4, 2**62)) == [(TOO_FAR_AHEAD, [])]
    early = Watched(Window(max_ahead=2))
    assert early.publish(message(1, -(2**62)), message(2, 2**62)) == [(ADMITTED, []), (TOO_FAR_AHEAD, [])]
    assert Watched(Window(max_ahead=0)).publish(message(1, 5), message(2, 6), message(3, 5)) == [
        (ADMITTED, []),
        (TOO_FAR_AHEAD, []),
        (ADMITTED, []),
    ]


def test_a_live_id_is_taken() -> None:
    watched = Watched(Window(count=2))
    assert watched.publish(message("a"), message("a"), message("b"), message("a")) == [
        (ADMITTED, []),
        (DUPLICATE, []),
        (ADMITTED, []),
        (DUPLICATE, []),
    ]
    assert watched.publish(message("b", 99)) == [(DUPLICATE, [])]
    assert watched.live.clock == 0, "a message that is refused does not move the clock"
    assert watched.live.last == 2


@pytest.mark.parametrize("apart", [False, True])
def test_an_id_may_be_used_again_after_it_expired(apart: bool) -> None:
    def publish(watched: Watched, *messages: Message) -> list[tuple[int, list[Any]]]:
        return [said for one in messages for said in watched.publish(one)] if apart else watched.publish(*messages)

    counted = Watched(Window(count=1))
    again = [message(name) for name in "abab"]
    assert publish(counted, *again) == [(ADMITTED, []), (ADMITTED, ["a"]), (ADMITTED, ["b"]), (ADMITTED, ["a"])]
    assert counted.ids == ["b"]
    aged = Watched(Window(age=1))
    again = [message("a", 0), message("a", 1000), message("a", 1999), message("a", 9000)]
    assert publish(aged, *again) == [(ADMITTED, []), (ADMITTED, ["a"]), (DUPLICATE, []), (ADMITTED, ["a"])]
    own = Watched(Window())
    again = [message("a", 0, 5), message("b", 4), message("a", 4), message("a", 5), message("a", 6)]
    assert publish(own, *again) == [(ADMITTED, []), (ADMITTED, []), (DUPLICATE, []), (ADMITTED, ["a"]), (DUPLICATE, [])]


def test_the_message_that_a_count_is_about_to_drop_is_still_live() -> None:
    """An arrival is checked before it takes a sequence: the oldest of a full window still holds its id."""
    watched = Watched(Window(count=1))
    assert watched.publish(message("a"), message("a")) == [(ADMITTED, []), (DUPLICATE, [])]


def test_without_a_window_ids_are_not_checked_and_nothing_expires() -> None:
    watched = Watched(None)
    assert watched.publish(message("a", 0, 5), message("a", 9), message("b", 3, 9)) == [
        (ADMITTED, []),
        (ADMITTED, []),
        (LATE, []),
    ]
    held = np.zeros(watched.live.table.ids.keys.capacity, dtype=bool)
    held[watched.live.table.live_slots[1]] = True
    watched.live.keep_only(held)
    assert watched.ids == ["a"]


# ----------------------------------------------------------------------------------------------------- against a model


@dataclass
class Model:
    """The rules of one window, in a list."""

    window: Window
    clock: int | None = None
    last: int = 0
    live: dict[Any, tuple[int, int | None]] = field(default_factory=dict)  # id -> sequence, expiry

    def expire(self) -> list[Any]:
        count = self.window.count
        gone = [
            id
            for id, (sequence, expiry) in self.live.items()
            if (expiry is not None and expiry <= self.clock) or (count is not None and sequence <= self.last - count)
        ]
        for id in gone:
            del self.live[id]
        return sorted(gone)

    def advance(self, ts: int) -> list[Any]:
        self.clock = ts if self.clock is None else max(self.clock, ts)
        return self.expire()

    def publish(self, message: Message) -> tuple[int, list[Any]]:
        clock = self.clock
        ts = message.ts if message.ts is not None else (clock or 0)
        ahead = self.window.max_ahead
        if clock is not None and ahead is not None and ts - clock > ahead * 1000:
            return TOO_FAR_AHEAD, []
        now = ts if clock is None else max(clock, ts)
        ends = [message.expires] if message.expires is not None else []
        if self.window.age is not None:
            ends.append(ts + round(self.window.age * 1000))
        expiry = min(ends, default=None)
        if expiry is not None and expiry <= now:
            self.clock = now
            return LATE, self.expire()
        held = self.live.get(message.id)
        if held is not None and (held[1] is None or held[1] > now):
            return DUPLICATE, []
        self.clock = now
        gone = self.expire()
        self.last += 1
        self.live[message.id] = (self.last, expiry)
        return ADMITTED, sorted(gone + self.expire())


WINDOWS = [
    Window(),
    Window(count=1),
    Window(count=5),
    Window(age=0.01),
    Window(count=7, age=0.02),
    Window(count=3, age=0.05, max_ahead=0.02),
    Window(age=0.03, max_ahead=0.01),
]


@pytest.mark.parametrize("window", WINDOWS, ids=repr)
def test_random_events(window: Window) -> None:
    for seed in range(12 if COMPILED else 4):
        choice = random.Random(seed)
        watched, model = Watched(window), Model(window)
        clock = choice.choice([0, 10**12, -50])
        for _ in range(30):
            if choice.random() < 0.2:
                clock += choice.choice([0, 1, 5, 30, -3])
                assert watched.advance(clock) == model.advance(clock)
            batch = []
            for _ in range(choice.choice([1, 2, 5, 20])):
                clock += choice.choice([0, 0, 0, 1, 1, 2, 10])
                ts = choice.choice([None, clock, clock, clock, clock - 3, clock - 15, clock + 12])
                life = choice.choice([None, None, None, 0, 1, 5, 20])
                batch.append(message(choice.randrange(12), ts, None if life is None else (ts or clock) + life))
            assert watched.publish(*batch) == [model.publish(one) for one in batch], seed
            assert watched.ids == sorted(model.live, key=lambda id: model.live[id][0])
            assert (watched.live.clock, watched.live.last) == (model.clock, model.last)
            if choice.random() < 0.1:
                other = LiveMessages(PLANE, window, watched.live.vocabulary)
                other.load(watched.live.state())
                watched.live = other


def test_memory_settles_under_churn() -> None:
    watched = Watched(Window(count=50, age=10))
    sizes = []
    rounds = 80 if COMPILED else 24
    for n in range(rounds):
        watched.publish(*(message(100 * n + i, 1000 * n + i, 1000 * n + i + 50 * i + 1) for i in range(100)))
        sizes.append(watched.live.nbytes)
    assert len(watched.ids) <= 50
    assert max(sizes[rounds // 2 :]) <= 1.5 * max(sizes[: rounds // 2])


def test_new_weights_measure_the_live_messages_anew() -> None:
    watched = Watched(Window(count=5))
    watched.publish(*(message(n) for n in range(7)))
    watched.live.vocabulary.set_weights(Weights.fit(["a", "b"]))
    watched.live.reweigh()
    rows = watched.live.table.layout.rows[watched.live.table.live_slots]
    assert rows["weight"].tolist() == [Weights.fit(["a", "b"]).weight("a")] * 5
    watched.check()
