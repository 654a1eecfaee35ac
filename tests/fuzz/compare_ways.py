"""A stream goes all ways at once; the first difference raises, with the event at which it shows."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from compare import Follower, by_subscription, identical
from contract.contenders import Judge
from definitions import Refused
from strategies import Event, Setting

import nearcast as nc
from fuzz.stored import stored
from fuzz.streams import Batch, crowd, cut, few, long
from fuzz.tight import tightened
from fuzz.ways import Answer, Compact, Handed, Restored, Shared, Singles, Whole, made

MOST_SHOWN = 3000  # characters of a batch


def few_round(seed: int) -> None:
    """Few events of few words, judged by the definitions."""
    setting, events = few(seed)
    Comparison(setting, events, seed, Defined(setting)).run()


def crowd_round(seed: int) -> None:
    """Many events of many words, judged by brute force over the same arrays."""
    setting, events = crowd(seed)
    Comparison(setting, events, seed, Whole(made(Judge, setting))).run()


def long_round(seed: int) -> None:
    """Thousands of events, judged like a crowd."""
    setting, events = long(seed)
    Comparison(setting, events, seed, Whole(made(Judge, setting))).run()


def stored_round(seed: int) -> None:
    """Words and places of data beside the project, judged by the definitions."""
    setting, events = stored(seed)
    Comparison(setting, events, seed, Defined(setting)).run()


class Defined(Singles):
    """Single events, each of them judged by the definitions."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting.broker())
        self._judge = setting.judge()
        self._follower = Follower(self._judge)

    def one(self, event: Event) -> Answer:
        answer = super().one(event)
        refused = None
        try:
            event.happen_to(self._judge)
        except Refused as reason:
            refused = reason
        if refused is None:
            assert not answer.rejects, f"refused: {answer.rejects}, {event}"
            self._follower.follow(answer.updates)
        else:
            assert answer.rejects, f"not refused, though {refused}: {event}"
        return answer

    def check(self) -> None:
        super().check()
        self._follower.check_all(self.broker)


class Comparison:
    """One stream, and all ways that take it."""

    def __init__(self, setting: Setting, events: list[Event], seed: int, judge: Whole) -> None:
        self._setting, self._batches, self._judge = setting, cut(events, seed), judge
        self._ids = sorted({event.arguments[0] for event in events if event.method == "subscribe"}, key=repr)
        self._seed, self._pick = seed, random.Random(seed)
        self._way = "judge"  # which one is at work
        self._kinds: dict[str, str] = {}
        self._tight: list[str] = []

    def _made(self, way: str) -> nc.Broker:
        kind = self._pick.choice((nc.Broker, Compact))
        self._kinds[way] = kind.__name__
        return made(kind, self._setting)

    def _ways(self, folder: Path) -> dict[str, Whole | Handed]:
        form, other = (self._pick.choice(("objects", "json", "arrow")) for _ in range(2))
        often = self._pick.choice((1.0, 1.0, 0.1))
        return {
            "batches": Whole(self._made("batches"), form),
            "one by one": Singles(self._made("one by one")),
            "restored": Restored(self._made("restored"), other, folder, often, self._seed),
            "in threads": Shared(self._made("in threads"), form, folder, 0.2, self._seed),
            "handed on": Handed([self._made("handed on") for _ in range(2)], folder, self._seed),
        }

    def run(self) -> None:
        """Compare what all ways tell, refuse and answer."""
        share = self._pick.choice((0.0, 0.1, 0.5, 1.0))
        with tempfile.TemporaryDirectory() as folder, tightened(share, self._seed) as self._tight:
            ways = self._ways(Path(folder))
            for number, batch in enumerate(self._batches):
                try:
                    self._take(batch, ways)
                    # Rarely: a check may make room that the next event then finds.
                    if self._pick.random() < 0.1 or number == len(self._batches) - 1:
                        self._check(ways)
                except Exception as error:
                    raise AssertionError(self._report(number, batch, error)) from error

    def _take(self, batch: Batch, ways: dict[str, Whole | Handed]) -> None:
        self._way = "judge"
        expected = self._judge.take(batch)
        for name, way in ways.items():
            self._way = name
            answer = way.take(batch)
            if isinstance(way, Handed):  # whose brokers know nothing of each other's refusals and updates
                assert by_subscription(answer.updates) == by_subscription(expected.updates)
                continue
            assert answer.rejects == expected.rejects, f"rejects {answer.rejects}, expected {expected.rejects}"
            assert answer.late == expected.late, f"late {answer.late}, expected {expected.late}"
            identical(answer.updates, expected.updates)

    def _check(self, ways: dict[str, Whole | Handed]) -> None:
        for name, way in {"judge": self._judge, **ways}.items():
            self._way = name
            for id in self._ids:
                found, expected = way.results(id), self._judge.results(id)
                assert found == expected, f"results of {id!r} are {found}, expected {expected}"
            way.check()

    def _report(self, number: int, batch: Batch, error: Exception) -> str:
        shown = repr(batch)
        lines = [
            f"{self._way}: {type(error).__name__}: {error}",
            f"brokers {self._kinds}, {self._setting.ground}, {self._setting.lifetime}",
            f"small: {', '.join(self._tight) or 'nothing'}",
            f"batch {number}: {shown if len(shown) <= MOST_SHOWN else shown[:MOST_SHOWN] + ' ...'}",
        ]
        return "\n".join(lines)
