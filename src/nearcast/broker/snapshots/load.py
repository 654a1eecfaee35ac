"""The state of a file is checked against an empty broker, and loaded into it."""

from __future__ import annotations

from nearcast.broker.parts import Parts
from nearcast.broker.snapshots.engine_references import check_engines
from nearcast.broker.snapshots.older import like_empty
from nearcast.broker.snapshots.references import check_messages_and_subscriptions
from nearcast.broker.snapshots.snapshot import Stored
from nearcast.broker.snapshots.state import load_state
from nearcast.broker.snapshots.structure import check_structure
from nearcast.broker.vacuum import Vacuum
from nearcast.columns.arena import State


def check_and_load(stored: Stored, empty: State, parts: Parts, vacuum: Vacuum) -> None:
    """Let the parts of a new broker, whose state is `empty`, become what a state says that `older.as_now` gave.

    Raises
    ------
    ValueError
        It cannot be a broker's.
    """
    state, empty = like_empty(stored.state, empty, stored.format)
    check_structure(state, empty)
    check_engines(state, check_messages_and_subscriptions(state))
    load_state(state, parts, vacuum)
