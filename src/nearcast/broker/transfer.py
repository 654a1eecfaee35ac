"""Subscriptions go from one broker to another: copied with all that is theirs, and taken up without a word.

Both brokers must have seen the same messages and have the same window. What a subscription's result is then follows
from the live messages, which are the same in both; so a copy holds its query, its end, and from which sequence on
messages count for it. Without a window messages do not live on, and a `Nearest` takes those that it holds along.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.broker.registry import Registry
from nearcast.columns.arena import State
from nearcast.columns.decode_subscriptions import KINDS
from nearcast.columns.ids import id_bytes
from nearcast.columns.subscription_tables import PointTable, WithinTable
from nearcast.engines.contract import Keeper, Notifier
from nearcast.errors import DuplicateId
from nearcast.text.strings import strings_to_arrow
from nearcast.window.window import LiveMessages


class Holdings(NamedTuple):
    """What a broker holds of its subscriptions, by kind."""

    registry: Registry
    tables: Mapping[int, WithinTable | PointTable]
    engines: Mapping[int, Notifier | Keeper]
    keepers: Mapping[int, Keeper]
    live: LiveMessages


def copied(ids: Iterable[Any] | pa.Array, held: Holdings) -> State:
    """These subscriptions, kind by kind: ids, what tables hold of them and, without a window, their messages."""
    named = ids.to_pylist() if isinstance(ids, pa.Array | pa.ChunkedArray) else list(ids)
    numbers = held.registry.find_all(named)
    numbers = np.unique(numbers[numbers >= 0])
    kinds, slots = held.registry.places(numbers)
    rows: State = {}
    for kind in np.unique(kinds).tolist():
        chosen = kinds == kind
        data, starts = id_bytes(held.registry.ids.to_arrow(numbers[chosen]))
        part: State = {"ids": data, "id_starts": starts, "id_type": held.registry.ids.type}
        part |= held.tables[kind].copy(slots[chosen])
        if held.live.window is None and kind in held.keepers:
            n_kept, messages, ranks = held.keepers[kind].kept(slots[chosen])
            used, at = np.unique(messages, return_inverse=True)
            part["kept"] = {"n": n_kept, "at": at, "ranks": ranks, "messages": held.live.table.copy(used)}
        rows[KINDS[kind]] = part
    return rows


def check_new(rows: State, held: Holdings) -> None:
    """Refuse subscriptions whose ids are taken."""
    for part in rows.values():
        ids = _ids(part)
        for at in np.flatnonzero(held.registry.find_many(ids) >= 0)[:1].tolist():
            raise DuplicateId("id", ids[at].as_py(), "must not be the id of another subscription")


def adopted(rows: State, held: Holdings) -> None:
    """Take up what `copied` gave."""
    for name, part in rows.items():
        kind = KINDS.index(name)
        numbers = held.registry.add(_ids(part), kind)
        slots = held.tables[kind].add_copied(part, numbers)
        held.registry.place(numbers, slots, part["rows"]["expires"].copy())
        held.engines[kind].insert(slots)
        if "kept" in part:
            kept = part["kept"]
            messages = held.live.table.add_copied(kept["messages"])
            held.keepers[kind].resume(slots, kept["n"], messages[kept["at"]], kept["ranks"])
        elif kind in held.keepers and len(held.live.table):
            held.keepers[kind].refresh(slots)


def _ids(part: State) -> pa.Array:
    if part["id_type"] == "integer":
        return pa.array(part["ids"].view("<i8"))
    return strings_to_arrow(part["ids"], part["id_starts"])
