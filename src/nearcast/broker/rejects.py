"""Who comes and who goes: ids that are new, ids whose subscriptions end, and why a message is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from nearcast.broker.registry import Registry, unknown
from nearcast.columns.arena import Ints
from nearcast.columns.arrow_rows import as_table, rows_of
from nearcast.columns.decode_messages import MessageBatch
from nearcast.columns.decode_subscriptions import Part
from nearcast.columns.ids import bulk_ids, group_ids, id_bytes
from nearcast.errors import DuplicateId, InvalidInput
from nearcast.model.checks import refusal as unreadable
from nearcast.model.update import Reject
from nearcast.window.live import DUPLICATE, LATE, Steps
from nearcast.window.window import Window


def new_ids_only(parts: list[Part], registry: Registry, clock: int) -> tuple[list[Part], list[Reject]]:
    """Reject ids that an earlier subscription or row has; leave out what has ended already."""
    if not parts:
        return [], []
    if len(parts) == 1 and len(parts[0].ids) == 1:
        (part,) = parts
        if part.given.expires[0] > clock and registry.find_many(part.ids)[0] < 0:
            return parts, []
    ids = pa.concat_arrays([part.ids for part in parts])
    rows = np.concatenate([part.given.rows for part in parts])
    open_ended = np.concatenate([part.given.expires for part in parts]) > clock
    taken = registry.find_many(ids) >= 0 if len(registry) else np.zeros(rows.size, dtype=bool)
    groups = group_ids(id_bytes(ids))
    candidates = np.flatnonzero(open_ended & ~taken)
    candidates = candidates[np.argsort(rows[candidates], kind="stable")]
    first = candidates[np.unique(groups[candidates], return_index=True)[1]]
    new = np.zeros(rows.size, dtype=bool)
    new[first] = True
    since = np.full(groups.max() + 1, rows.max() + 1)  # by id: the row that registers it
    since[groups[first]] = rows[first]
    rejects = []
    for at in np.flatnonzero(taken | (rows > since[groups])).tolist():
        error = DuplicateId("id", ids[at].as_py(), "must not be the id of another subscription")
        rejects.append(Reject(int(rows[at]), "id", str(error)))
    if new.all():
        return parts, rejects
    ends = np.cumsum([len(part.ids) for part in parts])
    kept = [part.filter(keep) for part, keep in zip(parts, np.split(new, ends[:-1]), strict=True)]
    return [part for part in kept if len(part.ids)], rejects


def named_numbers(source: Any, registry: Registry) -> tuple[Ints, pa.Array | list[Any]]:
    """Numbers of the subscriptions that a batch names, -1 where nobody is called so, and the names."""
    ids = bulk_ids(source)
    if ids is None:
        named = [_name(value) for value in rows_of("ids", _id_column(source))]
        ids = bulk_ids(named)
        if ids is None:
            return np.array([registry.find(id) for id in named], dtype=np.int32), named
    return registry.find_many(ids), ids


def _id_column(source: Any) -> Any:
    """Of a table its ids alone: what else there is concerns nobody."""
    table = as_table("ids", source, ("id",))
    return source if table is None else table


def _name(value: Any) -> Any:
    """The id that a row has, or is; what it raises is shown instead."""
    try:
        return _read(value)
    except Exception as error:
        return unreadable("id", value, error, lambda: _read(value))


def _read(value: Any) -> Any:
    return value.get("id") if isinstance(value, Mapping) else value


def ending(source: Any, registry: Registry) -> tuple[Ints, list[Reject]]:
    """Numbers of the subscriptions named, each once, and a reject for every row that names nobody any more."""
    numbers, named = named_numbers(source, registry)
    found, first = np.unique(numbers, return_index=True)
    ends = np.zeros(numbers.size, dtype=bool)
    ends[first[found >= 0]] = True
    lost = np.flatnonzero(~ends)
    values = named.take(pa.array(lost)).to_pylist() if isinstance(named, pa.Array) else [named[row] for row in lost]
    rejects = [Reject(row, "id", str(unknown(value))) for row, value in zip(lost.tolist(), values, strict=True)]
    return numbers[ends], rejects


def refusals(batch: MessageBatch, status: Ints, window: Window | None) -> list[tuple[int, InvalidInput]]:
    """The rows of a batch that the window did not admit, and why."""
    refused: list[tuple[int, InvalidInput]] = []
    for row in np.flatnonzero(status > LATE).tolist():
        error: InvalidInput = DuplicateId("id", batch.id(row), "must not be the id of a live message")
        if status[row] != DUPLICATE:
            ahead = window.max_ahead if window else None
            error = InvalidInput("ts", int(batch.ts[row]), f"must be at most {ahead} seconds ahead of the clock")
        refused.append((int(batch.rows[row]), error))
    return refused


def late_rows(batch: MessageBatch, status: Ints, steps: Steps, window: Window | None) -> list[Reject]:
    """The rows of a batch that had expired when they came, and why."""
    late = []
    for row in np.flatnonzero(status == LATE).tolist():
        clock = int(steps.clocks[np.searchsorted(steps.rows, batch.rows[row])])
        error = lateness(int(batch.ts[row]), int(batch.expires[row]), clock, window)
        late.append(Reject(int(batch.rows[row]), error.field, str(error)))
    return late


def lateness(ts: int, expires: int, clock: int, window: Window | None) -> InvalidInput:
    """Why a message had expired when it came; the clock stood so."""
    if expires <= clock or window is None:
        return InvalidInput("expires", expires, f"must be after the clock, {clock}, or the message is late")
    return InvalidInput(
        "ts", ts, f"must be after {clock - window.age_ms}, the window's age ago, or the message is late"
    )
