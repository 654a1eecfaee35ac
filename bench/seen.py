"""The latest lines of a figure, asked by series and point: rates, ratios, counters and laps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

Line = dict[str, Any]


class Seen:
    """The latest lines of a figure, asked by series and point."""

    def __init__(self, lines: Iterable[Line], order: Sequence[Any]) -> None:
        self._lines: dict[tuple[str, Any], Line] = {(line["series"], line["x"]): line for line in lines}
        known = {x: at for at, x in enumerate(order)}
        self._xs = sorted({x for _, x in self._lines}, key=lambda x: (known.get(x, -1), str(x)))

    def series(self) -> list[str]:
        """All that were recorded, in the order of their lines."""
        return list(dict.fromkeys(name for name, _ in self._lines))

    def xs(self, names: Iterable[str], at: Sequence[Any] = ()) -> list[Any]:
        """Points at which all of these series were recorded, in the order of the sweep."""
        names = list(names)
        return [x for x in self._xs if (not at or x in at) and all((name, x) in self._lines for name in names)]

    def rate(self, name: str, x: Any) -> float:
        """Units per CPU second, the middle repetition."""
        return float(median(_rates(self._lines[name, x])))

    def times(self, first: str, other: str, x: Any) -> float:
        """How many times as fast: repetition by repetition where both were measured in one run."""
        a, b = self._lines[first, x], self._lines[other, x]
        if a["run"] != b["run"]:
            return self.rate(first, x) / self.rate(other, x)
        return float(median(one / two for one, two in zip(_rates(a), _rates(b), strict=False)))

    def count(self, name: str, x: Any, counter: str, by: str = "") -> float | None:
        """A counter, for each unit of another one."""
        counters = self._lines[name, x]["counters"]
        if counter not in counters:
            return None
        return float(counters[counter]) / (max(1.0, float(counters[by])) if by else 1.0)

    def lap(self, name: str, x: Any, group: str, quantile: str = "cpu_p50_us") -> float | None:
        """Microseconds of a group of laps: the middle of the repetitions."""
        repeats = self._lines[name, x]["repeats"]
        laps = [done["laps"][group][quantile] for done in repeats if group in done.get("laps", {})]
        return float(median(laps)) if laps else None


def _rates(line: Line) -> list[float]:
    clean = [done for done in line["repeats"] if not done["compile_s"]] or line["repeats"]
    return [done["n"] / max(done["cpu_s"], 1e-9) for done in clean]
