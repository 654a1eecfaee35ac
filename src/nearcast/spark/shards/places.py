"""Where subscriptions are: an id belongs to the shard that its bytes name, unless an ``assign`` has put it elsewhere.

Every shard sees every ``assign`` and every control event, so all of them know the same places, and each takes the
events of its own subscriptions. An id that was assigned keeps its shard until it is unsubscribed.

There is no directory of all ids: whoever reads an event can tell its shard from the id's bytes, so nothing has to be
looked up or kept for subscriptions that were not assigned, and a second stateful operator before the shards would only
repeat what they know. What it costs is that every shard remembers the ids that were assigned to any, and looks at all
control events: 0.05 us each (`bench/spark_routing.py`, 2026-11), where to register one takes 2.6 us.

Shards begin with nothing, and the assigns of their first batch hold at once. Later ones hold from the next batch on:
at the end of the batch the giver writes a copy of the subscription to the store and drops it, and before the next batch
the taker takes it up. Nobody is told anything. In any one batch only one shard speaks for a subscription.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.columns.arena import Array, Ints, Longs, with_room
from nearcast.columns.ids import id_bytes
from nearcast.jit import kernel
from nearcast.spark.events import ASSIGN, UNSUBSCRIBE
from nearcast.spark.shards.blocks import Controls
from nearcast.text.key_table import Keys


def shards_of(ids: pa.Array, n_shards: int) -> Longs:
    """The shard that the bytes of each id name: the same in every run, on every machine."""
    data, starts = id_bytes(ids)
    sums = np.empty(len(ids), np.int64)
    sum_up(data, starts, _CRC, sums)
    return sums % n_shards


def _crc_table() -> Longs:
    """What a byte adds to a CRC-32, the one of zlib."""
    table = np.arange(256, dtype=np.int64)
    for _ in range(8):
        table = np.where(table & 1, 0xEDB88320 ^ (table >> 1), table >> 1)
    return table


_CRC = _crc_table()


@kernel
def sum_up(data: Any, starts: Any, table: Any, sums: Any) -> None:
    """Write the CRC-32 of each row's bytes."""
    for row in range(sums.size):
        crc = 0xFFFFFFFF
        for at in range(starts[row], starts[row + 1]):
            crc = (crc >> 8) ^ table[(crc ^ data[at]) & 255]
        sums[row] = crc ^ 0xFFFFFFFF


class Places:
    """Ids that were assigned, and their shards."""

    def __init__(self, n_shards: int, stored: pa.Table | None = None) -> None:
        self._n_shards = n_shards
        self._keys = Keys()
        self._shards: Ints = np.zeros(0, np.int32)
        self._id_type: pa.DataType = pa.string()
        if stored is not None and stored.num_rows:
            within = stored.filter(pa.array(stored.column("shard").to_numpy() < n_shards))
            self._put(within.column("id").combine_chunks(), within.column("shard").to_numpy())

    def of(self, ids: pa.Array) -> Longs:
        """The shard of each id."""
        found = shards_of(ids, self._n_shards)
        if len(self._keys) and len(ids):
            slots = self._keys.find_many(*id_bytes(ids))
            found[slots >= 0] = self._shards[slots[slots >= 0]]
        return found

    def concern(self, controls: list[pa.Table]) -> pa.Table | None:
        """The control events of some blocks, in order, that say where an id is, or are about one that was assigned."""
        named = [block.filter(pa.array(block.column("event").to_numpy() == ASSIGN)).column("id") for block in controls]
        assigned = pa.chunked_array([chunk for ids in named for chunk in ids.chunks], named[0].type).combine_chunks()
        if not len(assigned) and not len(self._keys):
            return None
        kept = []
        for block in controls:
            rows = block.filter(block.column("id").is_valid())
            ids = rows.column("id").combine_chunks()
            known = pc.is_in(ids, value_set=assigned).to_numpy(zero_copy_only=False)
            known = known | (self._keys.find_many(*id_bytes(ids)) >= 0)
            kept.append(rows.filter(pa.array(known)))
        return Controls(kept).rows

    def assigned(self, controls: pa.Table) -> tuple[pa.Array, Longs]:
        """The ids that the events of a batch assign, and to which shards; the last of an id counts."""
        rows = np.flatnonzero(controls.column("event").to_numpy() == ASSIGN)
        ids = controls.column("id").combine_chunks().take(pa.array(rows))
        last = _last_rows(ids)
        shards = controls.column("shard").combine_chunks().take(pa.array(rows)).to_numpy(zero_copy_only=False)
        return ids.take(pa.array(last)), shards[last].astype(np.int64)

    def assign(self, ids: pa.Array, shards: Longs) -> None:
        """Put ids into shards."""
        if len(ids):
            self._put(ids, shards)

    def forget_ended(self, controls: pa.Table) -> None:
        """Forget ids whose last event is an unsubscribe."""
        if not len(self._keys):
            return
        named = controls.filter(pa.array(controls.column("event").to_numpy() != ASSIGN))
        named = named.filter(named.column("id").is_valid())
        ids = named.column("id").combine_chunks()
        last = _last_rows(ids)
        ended = last[named.column("event").to_numpy()[last] == UNSUBSCRIBE]
        slots = self._keys.find_many(*id_bytes(ids.take(pa.array(ended))))
        self._keys.free_many(slots[slots >= 0])

    def table(self) -> pa.Table:
        """All there is to keep."""
        slots = self._keys.numbers()
        return pa.table({"id": self._ids(slots), "shard": pa.array(self._shards[slots], pa.int32())})

    def _ids(self, slots: Ints) -> pa.Array:
        if pa.types.is_integer(self._id_type):
            return pa.array(self._keys.take(slots)[0].view("<i8"))
        return self._keys.to_arrow_strings(slots)

    def _put(self, ids: pa.Array, shards: Array) -> None:
        self._id_type = ids.type
        slots = self._keys.add_many(*id_bytes(ids))
        self._shards = with_room(self._shards, self._keys.capacity)
        self._shards[slots] = shards


def _last_rows(ids: pa.Array) -> Longs:
    """The last row of each id."""
    if not len(ids):
        return np.zeros(0, np.int64)
    numbers = Keys().add_many(*id_bytes(ids))
    return np.sort(len(ids) - 1 - np.unique(numbers[::-1], return_index=True)[1])
