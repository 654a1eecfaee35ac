"""A broker's updates and results go in, beside the judge's view of the same events; a difference raises AssertionError.

This is the only place that knows the rule of 1e-9: against the judge, scores that near to a threshold or to each other
may fall either way. `Follower` therefore never compares two histories. It keeps each subscriber's result as the
broker's own updates make it, and asks of every event: are these updates the net change of that result, in order, with
the scores the judge finds, and is the result they lead to one that the judge allows? A near tie that the broker
settled its own way is then simply its result from there on.

Between two runs of Nearcast itself nothing may differ: `identical` compares bit for bit, order included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from definitions import TOLERANCE, Definitions, Entry, Id, Standing

from nearcast.model.query import Nearest
from nearcast.model.update import Update

Held = dict[int, Entry]  # a result: the entry of each message in it, by sequence


def about(value: float) -> Any:
    """Equal within the tolerance."""
    return pytest.approx(value, rel=TOLERANCE, abs=0)


def by_subscription(updates: Iterable[Update]) -> dict[Id, list[Update]]:
    """Each subscriber's updates in their order."""
    streams: dict[Id, list[Update]] = defaultdict(list)
    for update in updates:
        streams[update.subscription].append(update)
    return dict(streams)


def identical(ours: Iterable[Update], theirs: Iterable[Update]) -> None:
    """Two runs of Nearcast told the same, bit for bit, in the same order, also between subscribers."""
    told, expected = list(ours), list(theirs)
    left, right = by_subscription(told), by_subscription(expected)
    for id in left.keys() | right.keys():
        assert left.get(id, []) == right.get(id, []), f"subscription {id!r}"
    assert told == expected, "another order between subscriptions"


class Follower:
    """Follows a broker through the events that `judge` has seen, one call of `follow` after each of them."""

    def __init__(self, judge: Definitions) -> None:
        self.judge = judge
        self.held: dict[Id, Held] = {}

    def follow(self, updates: Iterable[Update]) -> None:
        """Check the updates of one event, which the judge has just been told of."""
        told = by_subscription(updates)
        standing = self.judge.standing
        strangers = told.keys() - standing.keys()
        assert not strangers, f"updates for {strangers}, which are not registered"
        self.held = {id: held for id, held in self.held.items() if id in standing}
        for id in told.keys() | (self.judge.touched & standing.keys()):
            try:
                self.held[id] = self._after(standing[id], self.held.get(id, {}), told.get(id, []))
            except AssertionError as error:
                raise AssertionError(self._report(id, told.get(id, []), error)) from error

    def _after(self, standing: Standing, held: Held, updates: Sequence[Update]) -> Held:
        """The result that the updates lead to."""
        signs = [update.sign for update in updates]
        assert signs == sorted(signs, reverse=True), "- comes before +"
        assert all(update.ts == self.judge.clock for update in updates), "ts is the clock after the event"
        old, new = self.judge.withdrawn, self.judge.successor
        if (
            standing.notifies
        ):  # what expires leaves silently, what is withdrawn does not; without a window nothing stays
            stays = {*self.judge.live, old} if self.judge.lifetime is not None else {}
            held = {sequence: entry for sequence, entry in held.items() if sequence in stays}
        n_gone = signs.count("-")
        told = [(u.message, u.score) for u in updates]
        gone = self._matched(standing, told[:n_gone], held.values(), oldest=True)
        fresh = (entry for entry in standing.entries.values() if entry.sequence not in held)
        came = self._matched(standing, told[n_gone:], fresh)
        kept = (held.keys() - {e.sequence for e in gone}) | {e.sequence for e in came}
        if old in held and new:  # of the two versions one that is told of is enough, if it does not stay
            assert new not in kept, "told of a message that stays under the same id"
            if old in kept:
                kept = (kept - {old}) | {new}
        assert kept <= standing.entries.keys(), (
            f"holds what no longer belongs: {[held.get(at, at) for at in kept - standing.entries.keys()]}"
        )
        after = {sequence: standing.entries[sequence] for sequence in kept}
        _check_allowed(standing, after)
        return after

    def check_results(self, id: Id, results: Sequence[tuple[Id, float | None]]) -> None:
        """`results` is what the updates so far add up to, best first."""
        standing, held = self.judge.standing[id], self.held.get(id, {})
        if standing.notifies and self.judge.lifetime is None:
            held = {}
        elif standing.notifies:
            held = {sequence: entry for sequence, entry in held.items() if sequence in self.judge.live}
        try:
            assert len(results) == len(held), "results are not what the updates add up to"
            self._matched(standing, results, held.values())
        except AssertionError as error:
            raise AssertionError(f"results of {id!r}: {results}\nheld: {list(held.values())}\n{error}") from error

    def check_all(self, broker: Any) -> None:
        """Every subscription's results."""
        for id in self.judge.standing:
            self.check_results(id, broker.results(id))

    def _matched(
        self,
        standing: Standing,
        told: Sequence[tuple[Id, float | None]],
        among: Iterable[Entry],
        oldest: bool = False,
    ) -> list[Entry]:
        """The entries that a list of messages and scores speaks of; it must be in order, best first.

        Ids are unique in a window. Without one, of equals under one id the newer comes first, and the older leaves
        first.
        """
        free = defaultdict(list)
        for entry in sorted(among, key=lambda entry: entry.sequence):
            free[entry.message].append(entry)
        sign = -1 if isinstance(standing.question.query, Nearest) else 1
        found: list[Entry] = []
        merits: list[float] = []
        for message, score in told:
            fits = [entry for entry in free[message] if self._close(entry, score, sign)]
            assert fits, f"{message!r} with {score!r} is not expected here, there are {free[message]}"
            entry = fits[0 if oldest else -1]
            free[message].remove(entry)
            merit = 0.0 if score is None else sign * score
            if found:
                in_order = _in_order((found[-1], merits[-1]), (entry, merit))
                assert in_order, f"{message!r} stands behind {found[-1].message!r}: best first, ties newer first"
            found.append(entry)
            merits.append(merit)
        return found

    def _close(self, entry: Entry, score: float | None, sign: int) -> bool:
        if score is None or entry.score is None:
            return score is None and entry.score is None
        return entry.may_be_told(sign * score, self.judge.clock)

    def _report(self, id: Id, updates: Sequence[Update], error: AssertionError) -> str:
        lines = [f"{error}", f"subscription {id!r}: {self.judge.standing[id].question.query}"]
        lines += [f"  told    {u.sign} {u.message!r} {u.score!r} at {u.ts}" for u in updates] or ["  told    nothing"]
        lines += [f"  held    {entry.message!r} {entry.score!r}" for entry in self.held.get(id, {}).values()]
        lines += [f"  judged  {entry.message!r} {entry.score!r}" for entry in self.judge.standing[id].result()]
        return "\n".join(lines)


def _in_order(first: tuple[Entry, float], second: tuple[Entry, float]) -> bool:
    """May the second stand behind the first? Scores that fade may be too small to tell."""
    (before, merit), (after, lower) = first, second
    if not after.half_life:
        return (lower, after.sequence) < (merit, before.sequence)
    if before.tie == after.tie:
        return after.sequence < before.sequence
    return after.merit(after.low) <= before.merit(before.high)


def _check_allowed(standing: Standing, held: Held) -> None:
    """Is this a result that the judge allows?"""
    outside = [entry for entry in standing.entries.values() if entry.sequence not in held]
    if standing.notifies:
        missing = [entry for entry in outside if entry.belongs and entry.sure]
        assert not missing, f"missing: {missing}"
        return
    assert len(held) == min(standing.question.k or 0, len(standing.entries)), f"wrong size {len(held)}"
    if not held or not outside:
        return
    best = max(outside, key=lambda e: e.merit(e.low))
    worst = min(held.values(), key=lambda e: e.merit(e.high))
    assert best.merit(best.low) <= worst.merit(worst.high), f"{best} is better than {worst}, and outside"
    oldest: dict[Any, Entry] = {}
    for entry in sorted(held.values(), key=lambda e: -e.sequence):
        oldest[entry.tie] = entry
    for entry in outside:
        rival = oldest.get(entry.tie)
        assert rival is None or rival.sequence > entry.sequence, f"{entry} ties with {rival}, is newer, and outside"
