"""`sweep` deletes files of a store that no restart can ask for: the only part that lists and deletes."""

from __future__ import annotations

import json
import time
from typing import Any

from pyarrow import fs

from nearcast.errors import InvalidInput
from nearcast.spark.shards.steps import ShardState
from nearcast.spark.shards.store import Store

RETAINED = 100  # batches that Spark keeps unless told otherwise: spark.sql.streaming.minBatchesToRetain
_DAY_S = 24 * 3600.0


def sweep(store: str, checkpoint: str, retained: int = RETAINED, older_than: float = _DAY_S) -> int:
    """Delete what a query has left in its store and what none of its last states names; returns the number of files.

    Parameters
    ----------
    store, checkpoint
        As the query has them. Files of other queries are not touched.
    retained
        How many batches back a restart may go: the session's ``spark.sql.streaming.minBatchesToRetain``.
    older_than
        Seconds; younger files may belong to a batch that is not committed yet.

    Raises
    ------
    InvalidInput
        There is no checkpoint of a query.
    """
    place, files = Store(checkpoint), Store(store)
    try:
        query = json.loads(place.need("metadata").to_pybytes())["id"]
        batches = [int(name) for name in place.names("commits") if name.isdigit()]
    except Exception as error:
        raise InvalidInput("checkpoint", checkpoint, "must be the checkpoint of a streaming query") from error
    heads = [head for head in files.names(f"{query}/heads") if head.isdigit()]
    kept = {head for head in heads if int(head) > max(batches, default=-1)}
    kept |= set(sorted((head for head in heads if head not in kept), key=int)[-retained:])
    named: set[str] = set()
    for head in kept:
        for name in files.names(f"{query}/heads/{head}"):
            state = ShardState.from_json(files.need(f"{query}/heads/{head}/{name}").to_pybytes().decode())
            named |= {block.name for batch in state.log for block in batch} | set(state.taking)
            named |= {state.snapshot or "", f"{state.snapshot}-places"}
    n = 0
    before = time.time() - older_than
    for folder in ("blocks", "snapshots", "copies"):
        for info in files.infos(f"{query}/{folder}"):
            if f"{query}/{folder}/{info.base_name}" not in named and _seconds(info) < before:
                files.delete(f"{query}/{folder}/{info.base_name}")
                n += 1
    for head in set(heads) - kept:
        for info in files.infos(f"{query}/heads/{head}"):
            if _seconds(info) < before:
                files.delete(f"{query}/heads/{head}/{info.base_name}")
                n += 1
    return n


def _seconds(info: fs.FileInfo) -> Any:
    return 0.0 if info.mtime_ns is None else info.mtime_ns / 1e9
