"""Snapshots of older formats: what a broker was told is read as it lies, and indexes are made again.

Formats differ mostly in how engines lay out their indexes, and these follow from subscriptions and live messages. Only
what a `Nearest` without a window has found does not, and must lie as it does now.

Whoever changes how anything else lies in a file adds a step to `_STEPS`: a test keeps a store of the oldest format.
"""

from __future__ import annotations

from collections.abc import Callable

from nearcast.broker.snapshots.snapshot import FORMAT, Stored
from nearcast.columns.arena import State

# By format: makes what the format before had into what this one has. Not for engines.
_STEPS: dict[int, Callable[[State], State]] = {
    15: lambda state: {**state, "threads": 1},
}


def as_now(stored: Stored) -> State:
    """The state as this version has it, with those engines that must be loaded and not made again."""
    state = stored.state
    if stored.format == FORMAT:
        return state
    for number in range(stored.format + 1, FORMAT + 1):
        state = _STEPS.get(number, dict)(state)
    found = state["window"] is None and len(state["tables"]["nearest"]["rows"])
    return {**state, "engines": {"nearest": state["engines"]["nearest"]} if found else {}}


def like_empty(state: State, empty: State, format_: int) -> tuple[State, State]:
    """What is to be checked of a state, and what it should be like; older settings may have other names."""
    if format_ == FORMAT:
        return state, empty
    engines = {label: empty["engines"][label] for label in state["engines"]}
    return {**state, "settings": empty["settings"]}, {**empty, "engines": engines}
