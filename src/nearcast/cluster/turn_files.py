"""What a turn is, as it stands in its file. `log` writes turns and tells what they are good for.

Imports little: processes that only plan Spark's stream read turns, too.
"""

from __future__ import annotations

from typing import NamedTuple

from nearcast.cluster.store import Store, read_table
from nearcast.columns.arena import Array

BATCH, GIVE, TAKE = "batch", "give", "take"  # kinds of turns


class Turn(NamedTuple):
    """What happens in a turn."""

    number: int
    kind: str
    what: int  # the batch, or the turn whose order it follows


def read_turn(store: Store, number: int) -> Turn:
    """What happens in turn `number`."""
    turn, kind, what = store.turn(number).read_text().strip().split(",")
    return Turn(int(turn), kind, int(what))


def read_route(store: Store, turn: int) -> Array | None:
    """The shard of every row of the turn's batch; None if it has no subscription events."""
    place = store.route(turn)
    return read_table(place).column("shard").to_numpy() if place.exists() else None
