"""What a row of a frame asks for, and how rows are put in one order.

Events are numbered in the order of their names, because that is their order among rows that are equal otherwise.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.columns.arena import Array, Longs
from nearcast.columns.times import MISSING

EVENTS = ("advance", "assign", "move", "publish", "retract", "subscribe", "unsubscribe", "update")
ADVANCE, ASSIGN, MOVE, PUBLISH, RETRACT, SUBSCRIBE, UNSUBSCRIBE, UPDATE = range(len(EVENTS))

# What each frame may ask for; the first is what a row without `event` means.
MESSAGE_EVENTS = ("publish", "update", "retract", "advance")
CONTROL_EVENTS = ("subscribe", "unsubscribe", "move", "advance", "assign")

_KEYS = ("ts", "id", "position", "event", "tie")


def codes_of(names: pa.Array, allowed: tuple[str, ...]) -> Array:
    """The numbers of events by name; a row without one is the first that is allowed, and -1 one that is not."""
    known = pc.index_in(pc.fill_null(names, allowed[0]), value_set=pa.array(EVENTS)).fill_null(-1)
    codes: Array = known.to_numpy(zero_copy_only=False).astype(np.int8)
    codes[~np.isin(codes, [EVENTS.index(name) for name in allowed])] = -1
    return codes


def times(table: pa.Table) -> Longs:
    """The ts of every row; MISSING, which comes first, where it has none."""
    return pc.fill_null(table.column("ts"), MISSING).to_numpy()  # type: ignore[no-any-return]


def ordered(table: pa.Table) -> Longs:
    """Row numbers in the order of events: by ts, id, position, event, and last by what the row holds.

    Most rows have a ts of their own, so only those that share one are compared any further.
    """
    ts = times(table)
    order: Longs = np.arange(ts.size) if (ts[1:] >= ts[:-1]).all() else np.argsort(ts, kind="stable")
    after = ts[order]
    same = after[1:] == after[:-1]
    if not same.any():
        return order
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    rows = table.select(_KEYS).take(pa.array(order[tied]))
    inner = pc.sort_indices(rows, [(name, "ascending", "at_start") for name in _KEYS]).to_numpy()
    order[tied] = order[tied[inner]]
    return order
