"""What lives: a `Window` says for how long, `is_live` whether a message does.

A message is live as of (last, clock) exactly when `is_live` says so, which reads nothing but its row. Engines can
therefore look at any moment inside a batch after the whole batch has been stored: slots that expire are used again
only after `LiveMessages.release`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

from nearcast.errors import InvalidInput
from nearcast.jit import kernel
from nearcast.model.checks import is_a, number, whole
from nearcast.model.instant import Duration, seconds_in
from nearcast.window.expiries import UNLIMITED

_LARGEST_COUNT = 10**30  # as good as none


@dataclass(frozen=True, slots=True)
class Window:
    """How long messages live: the newest `count`, an `age` in seconds, or both; own expiries always count.

    Parameters
    ----------
    count
        Only the newest `count` messages live.
    age
        Messages live for `age` seconds after their `ts`; a timedelta will do as well, and is kept as seconds.
    max_ahead
        Messages whose `ts` is more than this many seconds, or this timedelta, ahead of the clock are refused.
    """

    count: int | None = None
    age: float | None = None
    max_ahead: float | None = None

    if TYPE_CHECKING:  # what may be given is more than what is kept

        def __init__(
            self, count: int | None = None, age: Duration | None = None, max_ahead: Duration | None = None
        ) -> None: ...

    def __post_init__(self) -> None:
        if self.count is not None:
            object.__setattr__(self, "count", _count(self.count))
        for field in ("age", "max_ahead"):
            value = getattr(self, field)
            if value is not None:
                object.__setattr__(self, field, _seconds(field, value))
        if self.age is not None and self.age_ms < 1:
            raise InvalidInput("age", self.age, "must be at least a millisecond")

    @property
    def age_ms(self) -> int:
        return UNLIMITED if self.age is None else round(self.age * 1000)


def _count(value: Any) -> int:
    try:
        return whole("count", value, 1, _LARGEST_COUNT)
    except InvalidInput as error:
        if error.rule.startswith("must be <="):
            raise
        raise InvalidInput("count", value, "must be a whole number >= 1") from None


def _seconds(field: str, value: Any) -> float:
    """Seconds as a plain int, if they are one, or float."""
    given = value
    try:
        if is_a(value, timedelta):
            value = seconds_in(value)
        seconds = number(field, value)
    except InvalidInput:
        seconds = -1.0
    if not 0.0 <= seconds < UNLIMITED / 1000:
        raise InvalidInput(field, given, "must be seconds or a timedelta, >= 0")
    return whole(field, value) if is_a(value, Integral) else seconds


class Limits(NamedTuple):
    """A window as kernels see it."""

    newest: int  # how many live at most
    age_ms: int
    max_ahead_ms: int
    unique_ids: bool


@kernel
def is_live(row: Any, last: int, clock: int, count: int) -> Any:
    """Does the message of this row live when `last` is the newest sequence and the clock stands at `clock`?"""
    in_time = row.expires_at > clock and last < row.withdrawn_by
    return 0 < row.sequence <= last and row.sequence > last - count and in_time
