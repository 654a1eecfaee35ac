"""Every exception that Nearcast raises.

    NearcastError
    ├── InvalidInput (ValueError)        a value that cannot be honoured; nothing has changed
    │   ├── UnknownId (LookupError)      no such subscription or live message
    │   └── DuplicateId                  the id is taken
    ├── SnapshotError (ValueError)       a snapshot that this version cannot read
    ├── BrokenBroker (RuntimeError)      an event stopped half-way; restore the broker from a snapshot
    ├── NestedCall (RuntimeError)        a call from inside a call of the same broker
    └── SetupError (RuntimeError)        something that must be installed is not

`InvalidInput` and its leaves name the field and the value; `code` is stable and meant for programs. `NearcastWarning`
is no error: something was understood, and most likely meant otherwise.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

_SHOWN = 80  # characters of an offending value that a message repeats


def shown(value: Any) -> str:
    """The value as an error message shows it: its repr, cut to a readable length."""
    try:
        text = str.__str__(repr(value))
    except Exception:  # a value may refuse to be shown: an int of 5,000 digits, a list nested too deeply
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


class NearcastError(Exception):
    """Root of all errors raised by Nearcast."""

    code = "error"


class InvalidInput(NearcastError, ValueError):
    """A value that cannot be honoured. The broker is as it was before.

    Parameters
    ----------
    field
        Name of the offending field, as in the JSON form (``"k"``, ``"region"``).
    value
        What was given.
    rule
        What is allowed, worded to follow the field's name: ``"must be >= 1"``.
    """

    code = "invalid-input"

    def __init__(self, field: str, value: Any, rule: str) -> None:
        super().__init__(f"{field} {rule}, got {shown(value)}")
        self.field = field
        self.value = value
        self.rule = rule

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.field, self.value, self.rule)


class UnknownId(InvalidInput, LookupError):
    """No such subscription, or no such live message."""

    code = "unknown-id"


class DuplicateId(InvalidInput):
    """The id is already taken by a subscription or a live message."""

    code = "duplicate-id"


class SnapshotError(NearcastError, ValueError):
    """A file that is not a snapshot, a damaged one, or one of a format that this version does not read."""

    code = "snapshot"


class BrokenBroker(NearcastError, RuntimeError):
    """An event was stopped while it was applied; the broker answers nothing from then on.

    Parameters
    ----------
    call
        The method that was stopped.
    cause
        The name of the exception that stopped it, if that is known.
    """

    code = "broken-broker"

    def __init__(self, call: str, cause: str = "") -> None:
        super().__init__(
            f"{call} was stopped by {cause or 'an exception'} while its event was being applied, "
            "so that the broker may be half changed; restore it with Broker.restore from its last snapshot, "
            "or make another one"
        )
        self.call = call
        self.cause = cause

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.call, self.cause)


class NestedCall(NearcastError, RuntimeError):
    """A broker was called from inside one of its own calls, by a callback or a signal handler."""

    code = "nested-call"


class SetupError(NearcastError, RuntimeError):
    """Something that must be installed is not there; the message says what to install."""

    code = "setup"


class NearcastWarning(UserWarning):
    """A value that is honoured as it stands, but that most likely means something else."""

    code = "warning"


def warn(message: str) -> None:
    """Warn of what the caller's own line did: the nearest one outside the package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("nearcast."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, NearcastWarning, stacklevel=level)
