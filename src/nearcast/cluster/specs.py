"""Subscription events of a batch become the columnar form of subscriptions: what partitions are fitted to."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from nearcast.columns.arena import Array

_NUMBERS = ("lon", "lat", "alpha", "delta", "tau", "min_lon", "min_lat", "max_lon", "max_lat")
_WHOLE = ("k", "expires")
_TEXTS = ("kind", "measure", "match")


def specs_of(batch: pa.Table, rows: Array) -> list[dict[str, Any]]:
    """The JSON forms of these events."""
    return [json.loads(spec) for spec in batch.column("spec").take(pa.array(rows)).to_pylist()]


def subscriptions_of(batch: pa.Table, rows: Array) -> pa.Table:
    """These subscribe events as a table; a value of the wrong type is left out, for the shard to reject.

    Keyword lists become texts: whoever estimates costs needs the words, not how they were given.
    """
    specs = specs_of(batch, rows)
    columns: dict[str, pa.Array] = {"id": _ids([spec["id"] for spec in specs])}
    for name in _TEXTS:
        columns[name] = pa.array([_if(spec.get(name), str) for spec in specs], pa.string())
    for name in _NUMBERS:
        columns[name] = pa.array([_if(spec.get(name), int | float) for spec in specs], pa.float64())
    for name in _WHOLE:
        columns[name] = pa.array([_small(spec.get(name)) for spec in specs], pa.int64())
    columns["keywords"] = pa.array([_text(spec.get("keywords")) for spec in specs], pa.string())
    regions = [spec.get("region") for spec in specs]
    columns["region"] = pa.array([None if region is None else json.dumps(region) for region in regions], pa.string())
    return pa.table(columns)


def _ids(values: list[Any]) -> pa.Array:
    if all(isinstance(value, int) for value in values):
        return pa.array(values, pa.int64())
    return pa.array([str(value) for value in values], pa.string())


def _if(value: Any, kind: Any) -> Any:
    return value if isinstance(value, kind) and not isinstance(value, bool) else None


def _small(value: Any) -> int | None:
    found = _if(value, int)
    return None if found is None or abs(found) >= 2**63 else found


def _text(value: Any) -> str | None:
    if isinstance(value, list | tuple):
        return " ".join(word for word in value if isinstance(word, str))
    return _if(value, str)  # type: ignore[no-any-return]
