"""What changed for a subscriber, and which rows of a batch were refused: `Update` and `Reject`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Sign = Literal["+", "-"]


@dataclass(frozen=True, slots=True)
class Update:
    """One change of one subscriber's result. The broker makes it; nothing is checked again.

    Parameters
    ----------
    subscription, message
        Their ids, as they were given.
    sign
        ``"+"`` puts the message into the result, ``"-"`` takes it out.
    score
        The score (`Similar`, `TopK`), the distance (`Nearest`) or None (`Within`); on ``"-"`` the one it had.
    ts
        The clock after the event, in epoch milliseconds.
    """

    subscription: str | int
    message: str | int
    sign: Sign
    score: float | None
    ts: int | None


@dataclass(frozen=True, slots=True)
class Reject:
    """One row of a batch that could not be honoured; all other rows were processed.

    Parameters
    ----------
    row
        Its place in the batch, from 0.
    field
        The offending field, as in the JSON form.
    reason
        The full sentence: field, rule and what was given.
    """

    row: int
    field: str
    reason: str
