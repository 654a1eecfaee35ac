"""What lives: a `Window` says for how long, `is_live` whether a message does.

A message is live as of (last, clock) exactly when `is_live` says so, which reads nothing but its row. Engines can
therefore look at any moment inside a batch after the whole batch has been stored: slots that expire are used again
only after `LiveMessages.release`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nearcast.errors import InvalidInput
from nearcast.jit import kernel
from nearcast.window.expiries import UNLIMITED


@dataclass(frozen=True, slots=True)
class Window:
    """How long messages live: the newest `count`, an `age` in seconds, or both; own expiries always count.

    Parameters
    ----------
    count
        Only the newest `count` messages live.
    age
        Messages live for `age` seconds after their `ts`.
    max_ahead
        Messages whose `ts` is more than this many seconds ahead of the clock are refused.
    """

    count: int | None = None
    age: float | None = None
    max_ahead: float | None = None

    def __post_init__(self) -> None:
        if self.count is not None and (
            isinstance(self.count, bool) or not isinstance(self.count, int | np.integer) or self.count < 1
        ):
            raise InvalidInput("count", self.count, "must be a whole number >= 1")
        for field in ("age", "max_ahead"):
            value = getattr(self, field)
            if value is None:
                continue
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float | np.number)
                or not 0 <= value < UNLIMITED / 1000
            ):
                raise InvalidInput(field, value, "must be a number of seconds >= 0")
        if self.age is not None and self.age_ms < 1:
            raise InvalidInput("age", self.age, "must be at least a millisecond")

    @property
    def age_ms(self) -> int:
        return UNLIMITED if self.age is None else round(self.age * 1000)


class Limits(NamedTuple):
    """A window as kernels see it."""

    newest: int  # how many live at most
    age_ms: int
    max_ahead_ms: int
    unique_ids: bool


@kernel
def is_live(row, last, clock, count):
    """Does the message of this row live when `last` is the newest sequence and the clock stands at `clock`?"""
    return 0 < row.sequence <= last and row.sequence > last - count and row.expires_at > clock
