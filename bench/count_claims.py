"""Claims about what was counted, and about laps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.claims import NOISE, Claim, Found, list_of, range_of, where
from bench.seen import Seen


@dataclass(frozen=True)
class CountAtMost(Claim):
    """A counter, for each unit of another one, is at most that much."""

    what: str
    names: tuple[str, ...]
    counter: str
    most: float
    by: str = ""
    least: float = 0.0

    def words(self) -> str:
        low = f"{self.least:g} to " if self.least else "at most "
        return f"{self.what}: {low}{self.most:,g} with {list_of(self.names)}"

    def judge(self, seen: Seen) -> Found | None:
        counts = [seen.count(name, x, self.counter, self.by) for name in self.names for x in seen.xs((name,))]
        known = [count for count in counts if count is not None]
        held = [self.least <= count <= self.most for count in known]
        return Found(all(held), range_of(known), any(held)) if known else None


@dataclass(frozen=True)
class CountAtLeast(Claim):
    """A counter is at least that much: what is measured has really happened."""

    what: str
    names: tuple[str, ...]
    counter: str
    count: float

    def words(self) -> str:
        return f"{self.what}: at least {self.count:,g} with {list_of(self.names)}"

    def judge(self, seen: Seen) -> Found | None:
        counts = [seen.count(name, x, self.counter) for name in self.names for x in seen.xs((name,))]
        known = [count for count in counts if count is not None]
        held = [count >= self.count for count in known]
        return Found(all(held), range_of(known), any(held)) if known else None


@dataclass(frozen=True)
class Fewer(Claim):
    """One series counts less than each of the others, at every point or at some."""

    what: str
    first: str
    others: tuple[str, ...]
    counter: str
    by: str = ""
    times: float = 1.0  # that many times fewer
    at: tuple[Any, ...] = ()

    def words(self) -> str:
        many = f"at least {self.times:g} times fewer {self.what}" if self.times != 1 else f"fewer {self.what}"
        return f"{self.first}: {many} than {list_of(self.others)}{where(self.at)}"

    def judge(self, seen: Seen) -> Found | None:
        found = {}
        for other in self.others:
            pairs = [
                (seen.count(other, x, self.counter, self.by), seen.count(self.first, x, self.counter, self.by))
                for x in seen.xs((self.first, other), self.at)
            ]
            shares = [theirs / max(ours, 1e-9) for theirs, ours in pairs if theirs is not None and ours is not None]
            if shares:
                found[other] = shares
        if not found:
            return None
        least = min(min(shares) for shares in found.values())
        said = "; ".join(f"{other} counts {range_of(shares)} times as much" for other, shares in found.items())
        most = max(max(shares) for shares in found.values())
        needed = self.times * (1 - NOISE)
        return Found(least >= needed, said, most >= needed)


@dataclass(frozen=True)
class LapAtMost(Claim):
    """Of a group of laps, a quantile of CPU time is at most that many milliseconds."""

    name: str
    group: str
    most_ms: float
    quantile: str = "max"

    def words(self) -> str:
        which = {"max": "the longest", "p99": "p99 of", "p50": "the middle"}[self.quantile]
        return f"{self.name}: {which} {self.group} at most {self.most_ms:g} ms of CPU"

    def judge(self, seen: Seen) -> Found | None:
        laps = [seen.lap(self.name, x, self.group, f"cpu_{self.quantile}_us") for x in seen.xs((self.name,))]
        known = [lap / 1000 for lap in laps if lap is not None]
        return Found(max(known) <= self.most_ms, f"{range_of(known)} ms") if known else None


@dataclass(frozen=True)
class LapOrder(Claim):
    """One series takes longer in a group of laps than each of the others."""

    slow: str
    others: tuple[str, ...]
    group: str

    def words(self) -> str:
        return f"{self.group}: {self.slow} slower than {list_of(self.others)}"

    def judge(self, seen: Seen) -> Found | None:
        found: dict[str, list[float]] = {}
        for other in self.others:
            for x in seen.xs((self.slow, other)):
                ours, theirs = (seen.lap(name, x, self.group) for name in (self.slow, other))
                if ours is not None and theirs is not None:
                    found.setdefault(other, []).append(ours / max(theirs, 1e-9))
        if not found:
            return None
        said = "; ".join(f"{range_of(times)} times as long as {other}" for other, times in found.items())
        held = [min(times) >= 1 - NOISE for times in found.values()]
        return Found(all(held), said, any(held))


@dataclass(frozen=True)
class LapShare(Claim):
    """A group of laps takes at least that share of what these groups take together."""

    names: tuple[str, ...]
    group: str
    of: tuple[str, ...]
    least: float

    def words(self) -> str:
        return f"{self.group}: at least {self.least:.0%} of the time with {list_of(self.names)}"

    def judge(self, seen: Seen) -> Found | None:
        shares = [share for name in self.names for x in seen.xs((name,)) if (share := self._share(seen, name, x))]
        return Found(min(shares) >= self.least, f"{min(shares):.0%} to {max(shares):.0%}") if shares else None

    def _share(self, seen: Seen, name: str, x: Any) -> float | None:
        whole = sum(lap for group in self.of if (lap := seen.lap(name, x, group)))
        mine = seen.lap(name, x, self.group)
        return mine / whole if mine is not None and whole else None


@dataclass(frozen=True)
class CountTrend(Claim):
    """A counter is smaller, or larger, at the end of the sweep than at its start."""

    what: str
    way: str  # "less" or "more"
    names: tuple[str, ...]
    counter: str

    def words(self) -> str:
        return f"{self.way} {self.what} along the sweep with {list_of(self.names)}"

    def judge(self, seen: Seen) -> Found | None:
        found = {}
        for name in self.names:
            counts = [count for x in seen.xs((name,)) if (count := seen.count(name, x, self.counter)) is not None]
            if len(counts) > 1:
                found[name] = counts[-1] / max(counts[0], 1e-9)
        if not found:
            return None
        said = "; ".join(f"{name} {times:.3g} times as many at the end" for name, times in found.items())
        worst = max(found.values()) if self.way == "less" else min(found.values())
        return Found(worst <= 1 - NOISE if self.way == "less" else worst >= 1 + NOISE, said)


@dataclass(frozen=True)
class LapGap(Claim):
    """The difference between two groups of laps is smaller in one series than in each of the others."""

    first: str
    others: tuple[str, ...]
    groups: tuple[str, str]

    def words(self) -> str:
        long, short = self.groups
        return f"{long} and {short} closest with {self.first}, compared with {list_of(self.others)}"

    def judge(self, seen: Seen) -> Found | None:
        gaps: dict[str, list[float]] = {}
        for name in (self.first, *self.others):
            for x in seen.xs((self.first, name)):
                long, short = (seen.lap(name, x, group) for group in self.groups)
                if long is not None and short is not None:
                    gaps.setdefault(name, []).append((long - short) / 1000)
        if self.first not in gaps or len(gaps) < 2:
            return None
        rivals = [other for other in gaps if other != self.first]
        pairs = [
            (ours, theirs) for other in rivals for ours, theirs in zip(gaps[self.first], gaps[other], strict=False)
        ]
        said = "; ".join(f"{name} {range_of(gap)} ms apart" for name, gap in gaps.items())
        held = [ours <= theirs * (1 + NOISE) for ours, theirs in pairs]
        return Found(all(held), said, any(held))
