"""Times that look like seconds where milliseconds are asked for are flagged, once for each broker."""

from __future__ import annotations

from nearcast.columns.arena import Longs
from nearcast.columns.times import MISSING
from nearcast.errors import warn

# As seconds these are the years 2001 to 2096, as milliseconds some weeks of 1970. A round billion is nobody's time; it
# is what people give to move a clock far ahead.
_FIRST, _LAST = 1_000_000_001, 4_000_000_000


class TimeUnit:
    """Looks at the times of a broker's messages until it has found some that are most likely seconds."""

    __slots__ = ("_flagged",)

    def __init__(self) -> None:
        self._flagged = False

    def look(self, times: Longs) -> None:
        """Look at the times of a batch; those that were not given count for nothing."""
        if self._flagged or not times.size:
            return
        first = int(times[0])
        if times.size == 1:
            self.look_at(first)
            return
        if first != MISSING and not _FIRST <= first <= _LAST:
            return
        given = times[times != MISSING]
        if given.size and given.min() >= _FIRST and given.max() <= _LAST:
            self._flag(int(given[0]))

    def look_at(self, time: int) -> None:
        """Look at a single time."""
        if _FIRST <= time <= _LAST and not self._flagged:
            self._flag(time)

    def _flag(self, time: int) -> None:
        self._flagged = True
        warn(
            f"ts looks like seconds (such as {time}) and is read as milliseconds, in 1970: multiply by 1000, "
            "or give datetimes, ISO 8601 strings or Arrow timestamps. The broker says this once"
        )
