"""Subscriptions go from one broker to another: copied with all that is theirs, and taken up without a word.

Both brokers must have seen the same messages and have the same window. What a subscription's result is then follows
from the live messages, which are the same in both; so a copy holds its query, its end, and from which sequence on
messages count for it. Without a window messages do not live on, and a `Nearest` takes those that it holds along.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from nearcast.broker.parts import Parts
from nearcast.columns.arena import State
from nearcast.columns.ids import id_bytes
from nearcast.engines.contract import keeping
from nearcast.errors import DuplicateId
from nearcast.model.kinds import Kind
from nearcast.text.strings import strings_to_arrow


def export_rows(ids: Iterable[Any] | pa.Array, parts: Parts) -> State:
    """These subscriptions, kind by kind: ids, what tables hold of them and, without a window, their messages."""
    named = ids.to_pylist() if isinstance(ids, pa.Array | pa.ChunkedArray) else list(ids)
    numbers = parts.registry.find_all(named)
    numbers = np.unique(numbers[numbers >= 0])
    kinds, slots = parts.registry.places(numbers)
    live, keepers = parts.context.live, keeping(parts.engines)
    rows: State = {}
    for kind in map(Kind, np.unique(kinds).tolist()):
        chosen = kinds == kind
        data, starts = id_bytes(parts.registry.ids.to_arrow(numbers[chosen]))
        part: State = {"ids": data, "id_starts": starts, "id_type": parts.registry.ids.type}
        part |= parts.tables[kind].copy(slots[chosen])
        if live.window is None and kind in keepers:
            n_kept, messages, ranks = keepers[kind].kept(slots[chosen])
            used, at = np.unique(messages, return_inverse=True)
            part["kept"] = {"n": n_kept, "at": at, "ranks": ranks, "messages": live.table.copy(used)}
        rows[kind.label] = part
    return rows


def check_new(rows: State, parts: Parts) -> None:
    """Refuse subscriptions whose ids are taken."""
    for part in rows.values():
        ids = _ids(part)
        for at in np.flatnonzero(parts.registry.find_many(ids) >= 0)[:1].tolist():
            raise DuplicateId("id", ids[at].as_py(), "must not be the id of another subscription")


def adopt_rows(rows: State, parts: Parts) -> None:
    """Take up what `export_rows` gave."""
    live, keepers = parts.context.live, keeping(parts.engines)
    for name, part in rows.items():
        kind = Kind.of(name)
        numbers = parts.registry.add(_ids(part), kind)
        slots = parts.tables[kind].add_copied(part, numbers)
        parts.registry.place(numbers, slots, part["rows"]["expires"].copy())
        parts.engines[kind].insert(slots)
        if "kept" in part:
            kept = part["kept"]
            messages = live.table.add_copied(kept["messages"])
            keepers[kind].resume(slots, kept["n"], messages[kept["at"]], kept["ranks"])
        elif kind in keepers and len(live.table):
            keepers[kind].fill(slots)


def _ids(part: State) -> pa.Array:
    if part["id_type"] == "integer":
        return pa.array(part["ids"].view("<i8"))
    return strings_to_arrow(part["ids"], part["id_starts"])
