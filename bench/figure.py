"""What a figure declares, what a case must do, and the stopwatch that it is timed with."""

from __future__ import annotations

import importlib
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from bench.claims import Claim

Sizes = dict[str, Any]  # settings of a case by name: how many, how large, which kind
Counts = dict[str, float]  # work counters by name

FOLDER = Path(__file__).resolve().parent
SEED = 20_261_115


class WrongAnswer(Exception):
    """A case differs from the brute force: it is neither timed nor recorded."""


class Stopwatch:
    """Wall and CPU time of the `with` blocks it guards, and laps inside them.

    Examples
    --------
    >>> watch = Stopwatch()
    >>> with watch:
    ...     watch.lap("first")
    >>> watch.wall_s > 0, list(watch.laps)
    (True, ['first'])
    """

    def __init__(self) -> None:
        self.wall_s = 0.0
        self.cpu_s = 0.0
        self.laps: dict[str, list[tuple[int, int]]] = {}  # wall and CPU nanoseconds of each lap, by group
        self._start = self._mark = (0, 0)

    def __enter__(self) -> Self:
        self._start = self._mark = (time.perf_counter_ns(), time.process_time_ns())
        return self

    def __exit__(self, *_: object) -> None:
        wall_ns, cpu_ns = time.perf_counter_ns(), time.process_time_ns()
        self.wall_s += (wall_ns - self._start[0]) / 1e9
        self.cpu_s += (cpu_ns - self._start[1]) / 1e9

    def lap(self, group: str) -> None:
        """One operation of this group has ended; it began with the block, or where the lap before it ended."""
        now = (time.perf_counter_ns(), time.process_time_ns())
        self.laps.setdefault(group, []).append((now[0] - self._mark[0], now[1] - self._mark[1]))
        self._mark = now


class Case(ABC):
    """Something to measure; one is made for each series of each point, in a process of its own."""

    unit = "rows"  # what `repeat` counts

    def __init__(self, sizes: Mapping[str, Any], seed: int) -> None:
        self.sizes = dict(sizes)
        self.seed = seed
        self.source = "synthetic"  # where the messages came from

    @abstractmethod
    def prepare(self) -> None:
        """Make the data and build what is measured; recorded as setup, not as a timing."""

    @abstractmethod
    def check(self) -> int:
        """Compare a sample with a brute force; returns how many answers were compared, or raises `WrongAnswer`."""

    @abstractmethod
    def repeat(self, watch: Stopwatch) -> int:
        """Do the work once, the timed part inside ``with watch``; returns how many units were done."""

    def counts(self) -> Counts:
        """Work counters and bytes so far."""
        return {}


@dataclass(frozen=True)
class Figure:
    """A figure: what is swept, which lines are drawn, and what shape is expected of them."""

    title: str
    workload: str  # in words
    expected: str  # which line wins, how it grows
    sweep: tuple[str, tuple[Any, ...]]  # name and values of what changes along x
    series: Mapping[str, tuple[type[Case], Mapping[str, Any]]]  # name -> case and its own settings
    sizes: Mapping[str, Any]  # settings that all series share
    tiny: Mapping[str, Any]  # settings of the guards, over all others; may narrow the sweep under its name
    baseline: str | None = None  # the series that ratios are taken against
    repeats: int = 5
    seed: int = SEED
    work: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # shown beside: label -> counter by counter
    average: bool = False  # show the average over the sweep too
    together: bool = True  # all series alive at once and interleaved; False where memory does not allow it
    claims: tuple[Claim, ...] = ()  # the shape that a paper says it has
    bars: tuple[Claim, ...] = ()  # what we ask of ourselves
    because: str = ""  # why some claims or bars do not hold; needed where one does not, and only there
    since: str = ""  # when what is measured changed: records of earlier runs are not shown
    name: str = field(default="", compare=False)  # that of its file

    def sizes_of(self, series: str, x: Any, changed: Mapping[str, Any]) -> Sizes:
        """All settings of one series at one point."""
        return {**self.sizes, **self.series[series][1], self.sweep[0]: x, **changed}

    def place_of(self, x: Any) -> tuple[int, Any]:
        """Where a value stands in the sweep; others come first, in their own order."""
        known = list(self.sweep[1])
        return (known.index(x), 0) if x in known else (-1, x)

    def make(self, series: str, sizes: Mapping[str, Any], seed: int) -> Case:
        """The case of a series."""
        return self.series[series][0](sizes, seed)


def names() -> list[str]:
    """All figures."""
    return sorted(path.stem for path in (FOLDER / "figures").glob("*.py") if path.stem != "__init__")


def load(name: str) -> Figure:
    """The figure of that name."""
    declared: Figure = importlib.import_module(f"bench.figures.{name}").FIGURE
    object.__setattr__(declared, "name", name)
    return declared
