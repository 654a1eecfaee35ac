"""Subscriptions go from one broker to another: copied with all that is theirs, and taken up without a word.

Both brokers must have seen the same messages and have the same window. What a subscription's result is then follows
from the live messages, which are the same in both; so a copy holds its query, its end, and from which sequence on
messages count for it. Without a window messages do not live on, and a `Nearest` takes those that it holds along.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from nearcast.broker.parts import Parts
from nearcast.broker.rejects import named_numbers
from nearcast.columns.arena import Array, State
from nearcast.columns.ids import group_ids, id_bytes, same_type
from nearcast.engines.contract import keeping
from nearcast.errors import DuplicateId, InvalidInput
from nearcast.model.checks import raises_again
from nearcast.model.kinds import LABELS, Kind
from nearcast.text.strings import strings_to_arrow

_FORMAT = "nearcast copy 4"  # what copies hold; another number if that changes


def export_rows(ids: Iterable[Any] | pa.Array, parts: Parts) -> State:
    """These subscriptions, kind by kind: ids, what tables hold of them and, without a window, their messages."""
    numbers = named_numbers(ids, parts.registry)[0]
    numbers = np.unique(numbers[numbers >= 0])
    kinds, slots = parts.registry.places(numbers)
    live, keepers = parts.context.live, keeping(parts.engines)
    rows: State = {}
    for kind in map(Kind, np.unique(kinds).tolist()):
        chosen = kinds == kind
        data, starts = id_bytes(parts.registry.ids.to_arrow(numbers[chosen]))
        part: State = {
            "ids": data,
            "id_starts": starts,
            "id_type": parts.registry.ids.type,
            "metric": parts.context.space.metric,
            "analyzer": parts.context.vocabulary.analysis.analyzer.state(),
        }
        part |= parts.tables[kind].copy(slots[chosen])
        if live.window is None and kind in keepers:
            n_kept, messages, ranks = keepers[kind].kept(slots[chosen])
            used, at = np.unique(messages, return_inverse=True)
            part["kept"] = {"n": n_kept, "at": at, "ranks": ranks, "messages": live.table.copy(used)}
        rows[kind.label] = part | {"digest": _digest(kind.label, part)}
    return rows


def check_copied(rows: State, parts: Parts) -> None:
    """Refuse what `export_rows` did not give, what cannot live in this broker, and ids that are taken."""
    try:
        known = _is_copy(rows)
    except Exception as error:
        if not raises_again(error, lambda: _is_copy(rows)):
            raise
        known = False
    if not known:
        raise InvalidInput("rows", rows, "must be what export_subscriptions gave")
    live, keepers = parts.context.live, keeping(parts.engines)
    own, messages = parts.registry.ids.type, live.table.ids.type
    all_ids: list[pa.Array] = []
    for name, part in rows.items():
        if part["metric"] != parts.context.space.metric:
            raise InvalidInput(
                "rows", part["metric"], f"must come from a broker whose metric is {parts.context.space.metric}"
            )
        analyzer = parts.context.vocabulary.analysis.analyzer
        if part["analyzer"] != analyzer.state():
            raise InvalidInput("rows", part["analyzer"], f"must come from a broker with the same analyzer, {analyzer}")
        if ("kept" in part) != (live.window is None and Kind.of(name) in keepers):
            raise InvalidInput("rows", name, "must come from a broker with the same window")
        all_ids.append(_ids(part))
        own = same_type(all_ids[-1][0].as_py(), own)
        if "kept" in part and part["kept"]["messages"]["rows"].size:
            messages = _message_type(part["kept"]["messages"], messages)
    for ids in all_ids:
        _refuse_taken(ids, parts.registry.find_many(ids) >= 0)
    if len(all_ids) > 1:
        ids = pa.concat_arrays(all_ids)
        groups = group_ids(id_bytes(ids))
        again = np.ones(groups.size, dtype=bool)
        again[np.unique(groups, return_index=True)[1]] = False
        _refuse_taken(ids, again)


def _is_copy(rows: State) -> bool:
    return all(name in LABELS and part["digest"] == _digest(name, part) for name, part in rows.items())


def _refuse_taken(ids: pa.Array, taken: Array) -> None:
    for at in np.flatnonzero(taken)[:1].tolist():
        raise DuplicateId("id", ids[at].as_py(), "must not be the id of another subscription")


def _message_type(copied: State, expected: str | None) -> str:
    """The type of the ids of copied messages, which must be that of the messages here."""
    if expected is not None and copied["id_type"] != expected:
        raise InvalidInput("rows", copied["id_type"], f"must have messages whose ids are like those here ({expected})")
    return str(copied["id_type"])


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


def _digest(kind: str, part: State) -> str:
    """A digest of all that a copy holds: it tells a copy from anything else, and a damaged one, too."""
    digest = hashlib.blake2b(f"{_FORMAT} {kind}".encode(), digest_size=16)
    _add(digest, part)
    return digest.hexdigest()


def _add(digest: Any, part: State) -> None:
    for name in sorted(part):
        value = part[name]
        if name == "digest":
            continue
        if isinstance(value, dict):
            digest.update(f"{name} {{".encode())
            _add(digest, value)
        elif isinstance(value, np.ndarray):
            kinds = [(field, value.dtype[field].str) for field in value.dtype.names or ()] or value.dtype.str
            digest.update(f"{name} {kinds} {value.dtype.itemsize} {value.shape} ".encode())
            digest.update(np.ascontiguousarray(value).view(np.uint8).data if value.size else b"")
        else:
            digest.update(f"{name} {value!r} ".encode())
