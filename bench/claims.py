"""The shape that is expected of a figure, as claims that are tried on its records: here those about rates.

A claim says itself in words, and what the records say to it. It is judged on the latest line of each series at each
point. What differs by less than a twentieth counts as level, since the machines that records come from are shared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bench.seen import Seen

NOISE = 0.05  # differences below are none


class Found(NamedTuple):
    """What a record says to a claim."""

    holds: bool  # everywhere
    words: str
    partly: bool = False  # if not everywhere, then for some series or at some point


class Claim(ABC):
    """Something that a paper, or a bar of our own, says about a figure."""

    @abstractmethod
    def words(self) -> str:
        """The claim itself."""

    @abstractmethod
    def judge(self, seen: Seen) -> Found | None:
        """What the records say; None where they say nothing."""


@dataclass(frozen=True)
class Ahead(Claim):
    """One series is at least that many times as fast as each of the others, at every point or at some."""

    first: str
    others: tuple[str, ...]
    times: float = 1.0
    at: tuple[Any, ...] = ()

    def words(self) -> str:
        many = "ahead of" if self.times == 1 else f"at least {self.times:g} times as fast as"
        return f"{self.first} {many} {list_of(self.others)}{where(self.at)}"

    def judge(self, seen: Seen) -> Found | None:
        found = {}
        for other in self.others:
            ratios = [seen.times(self.first, other, x) for x in seen.xs((self.first, other), self.at)]
            if ratios:
                found[other] = ratios
        if not found:
            return None
        least = min(min(ratios) for ratios in found.values())
        said = "; ".join(f"{range_of(ratios)} times as fast as {other}" for other, ratios in found.items())
        most = max(max(ratios) for ratios in found.values())
        needed = self.times * (1 - NOISE)
        return Found(least >= needed, said, most >= needed)


@dataclass(frozen=True)
class Level(Claim):
    """No point of a series is more than that many times as fast as another."""

    names: tuple[str, ...] = ()  # none: all
    within: float = 1.5
    at: tuple[Any, ...] = ()

    def words(self) -> str:
        who = list_of(self.names) or "every line"
        return f"{who} level{where(self.at)}: at most {self.within:g} times between two points"

    def judge(self, seen: Seen) -> Found | None:
        found = {}
        for name in self.names or seen.series():
            rates = [seen.rate(name, x) for x in seen.xs((name,), self.at)]
            if len(rates) > 1:
                found[name] = max(rates) / min(rates)
        if not found:
            return None
        said = "; ".join(f"{times:.3g} times for {name}" for name, times in found.items())
        most = self.within * (1 + NOISE)
        return Found(max(found.values()) <= most, said, min(found.values()) <= most)


@dataclass(frozen=True)
class Trend(Claim):
    """A series is faster, or slower, at the end of the sweep than at its start."""

    way: str  # "faster" or "slower"
    names: tuple[str, ...] = ()  # none: all
    at: tuple[Any, ...] = ()

    def words(self) -> str:
        return f"{list_of(self.names) or 'every line'} {self.way} along the sweep{where(self.at)}"

    def judge(self, seen: Seen) -> Found | None:
        found = {}
        for name in self.names or seen.series():
            xs = seen.xs((name,), self.at)
            if len(xs) > 1:
                found[name] = seen.rate(name, xs[-1]) / seen.rate(name, xs[0])
        if not found:
            return None
        said = "; ".join(f"{name} {times:.3g} times the rate at the end" for name, times in found.items())
        if self.way == "faster":
            return Found(min(found.values()) >= 1 + NOISE, said, max(found.values()) >= 1 + NOISE)
        return Found(max(found.values()) <= 1 - NOISE, said, min(found.values()) <= 1 - NOISE)


@dataclass(frozen=True)
class Best(Claim):
    """A series is fastest, or level with the fastest, at one of these points."""

    among: tuple[Any, ...]
    names: tuple[str, ...] = ()  # none: all
    at: tuple[Any, ...] = ()  # of these points

    def words(self) -> str:
        return f"{list_of(self.names) or 'every line'} best at {list_of(self.among)}"

    def judge(self, seen: Seen) -> Found | None:
        found, held = {}, []
        for name in self.names or seen.series():
            xs = seen.xs((name,), self.at)
            if len(xs) < 2 or not any(x in self.among for x in xs):
                continue
            rates = {x: seen.rate(name, x) for x in xs}
            found[name] = max(rates, key=lambda x: rates[x])
            held.append(max(rates[x] for x in xs if x in self.among) >= max(rates.values()) * (1 - NOISE))
        if not found:
            return None
        return Found(all(held), "; ".join(f"{name} best at {name_of(x)}" for name, x in found.items()), any(held))


@dataclass(frozen=True)
class GrowsLeast(Claim):
    """From the first point to the last, one series loses the smallest part of its rate."""

    first: str
    others: tuple[str, ...]

    def words(self) -> str:
        return f"{self.first} slows down least, compared with {list_of(self.others)}"

    def judge(self, seen: Seen) -> Found | None:
        known = [name for name in (self.first, *self.others) if seen.xs((name,))]
        xs = seen.xs(known)
        if self.first not in known or len(known) < 2 or len(xs) < 2:
            return None
        found = {name: seen.rate(name, xs[0]) / seen.rate(name, xs[-1]) for name in known}
        held = [found[self.first] <= found[other] * (1 + NOISE) for other in known[1:]]
        said = "; ".join(f"{name} takes {times:.3g} times as long" for name, times in found.items())
        return Found(all(held), f"{said} at {name_of(xs[-1])} as at {name_of(xs[0])}", any(held))


@dataclass(frozen=True)
class GrowthAtMost(Claim):
    """The time of a unit grows at most that many times from one point to another."""

    names: tuple[str, ...]
    times: float
    at: tuple[Any, Any]

    def words(self) -> str:
        start, end = map(name_of, self.at)
        return f"{list_of(self.names)}: at most {self.times:g} times the time from {start} to {end}"

    def judge(self, seen: Seen) -> Found | None:
        both = {name for name in self.names if len(seen.xs((name,), self.at)) == 2}
        found = {name: seen.rate(name, self.at[0]) / seen.rate(name, self.at[1]) for name in self.names if name in both}
        if not found:
            return None
        said = "; ".join(f"{times:.3g} times for {name}" for name, times in found.items())
        return Found(max(found.values()) <= self.times, said, min(found.values()) <= self.times)


@dataclass(frozen=True)
class AtLeast(Claim):
    """A series does at least that many units per CPU second."""

    name: str
    rate: float
    at: tuple[Any, ...] = ()

    def words(self) -> str:
        return f"{self.name}: at least {self.rate:,g} per CPU second{where(self.at)}"

    def judge(self, seen: Seen) -> Found | None:
        rates = [seen.rate(self.name, x) for x in seen.xs((self.name,), self.at)]
        return Found(min(rates) >= self.rate, range_of(rates), max(rates) >= self.rate) if rates else None


@dataclass(frozen=True)
class MarginGrows(Claim):
    """One series is further ahead of each of the others at the end of the sweep than at its start."""

    first: str
    others: tuple[str, ...]

    def words(self) -> str:
        return f"{self.first} further ahead of {list_of(self.others)} at the end than at the start"

    def judge(self, seen: Seen) -> Found | None:
        found = {}
        for other in self.others:
            xs = seen.xs((self.first, other))
            if len(xs) > 1:
                found[other] = (seen.times(self.first, other, xs[0]), seen.times(self.first, other, xs[-1]))
        if not found:
            return None
        said = "; ".join(f"{a:.3g}, then {b:.3g} times as fast as {other}" for other, (a, b) in found.items())
        held = [end >= start * (1 + NOISE) for start, end in found.values()]
        return Found(all(held), said, any(held))


@dataclass(frozen=True)
class KeepingCosts(Claim):
    """What a message costs more when it is kept (against the series ", none kept") is least for these series."""

    least: tuple[str, ...]
    others: tuple[str, ...]

    def words(self) -> str:
        return f"keeping a message costs {list_of(self.least)} less than {list_of(self.others)}"

    def judge(self, seen: Seen) -> Found | None:
        costs: dict[str, list[float]] = {}
        for name in (*self.least, *self.others):
            for x in seen.xs((name, f"{name}, none kept")):
                costs.setdefault(name, []).append(1e6 / seen.rate(name, x) - 1e6 / seen.rate(f"{name}, none kept", x))
        cheap, dear = ([costs[name] for name in names if name in costs] for names in (self.least, self.others))
        if not cheap or not dear:
            return None
        held = [max(map(max, cheap)) <= min(cost) * (1 + NOISE) for cost in dear]
        said = "; ".join(f"{name} {range_of(cost)} us" for name, cost in costs.items())
        return Found(all(held), said, any(held))


def list_of(names: Sequence[Any]) -> str:
    told = [name_of(name) for name in names]
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}" if told else ""


def name_of(value: Any) -> str:
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return f"{int(value):,}"
    return str(value)


def where(at: Sequence[Any]) -> str:
    return f" at {list_of(at)}" if at else ""


def range_of(values: Sequence[float]) -> str:
    low, high = (plain_of(value) for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def plain_of(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
