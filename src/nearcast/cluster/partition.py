"""Who holds what: subscriptions become numbers of shards, and a shard's number the key that Spark groups by.

`fit` splits subscriptions into shards, and the `Partition` that it returns says where those that come later belong.
The method "hash" spreads them by a hash of their id that never changes (Python's own differs between processes). Spark
in turn sends a key to the partition `pmod(murmur3(key), n)`; `shard_key` finds for each shard a key that Spark sends to
the partition of that number, so that every partition has exactly one shard.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.columns.arena import Array, Floats, Ints
from nearcast.errors import InvalidInput
from nearcast.space.space import Space

METHODS = ("dkm", "keyword", "space", "hash")

_MASK = 0xFFFFFFFF
_SPARK_SEED = 42


class Partition:
    """A fitted partition: which shard holds what, and how much each is expected to have to do."""

    def __init__(self, n_shards: int) -> None:
        self.n_shards = n_shards
        self.loads: Floats = np.zeros(n_shards)

    def assign(self, subscriptions: pa.Table) -> Ints:
        """The shard of each new subscription; its cost is added to the shard's load.

        A row that is malformed gets some shard, which will reject it.
        """
        shards = np.array([owner_of(id_, self.n_shards) for id_ in subscriptions.column("id").to_pylist()], np.int32)
        self.loads += np.bincount(shards, self.costs(subscriptions), self.n_shards)
        return shards

    def costs(self, subscriptions: pa.Table) -> Floats:
        """What each subscription is expected to cost its shard."""
        return np.ones(subscriptions.num_rows)

    def release(self, shards: npt.ArrayLike, costs: npt.ArrayLike) -> None:
        """Subscriptions of these costs have left these shards."""
        self.loads -= np.bincount(np.asarray(shards, np.int64), np.asarray(costs, np.float64), self.n_shards)

    def state(self) -> dict[str, Any]:
        """All there is to keep."""
        return {"method": "hash", "loads": self.loads}

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> Self:
        """The partition of a state."""
        made = cls(len(state["loads"]))
        made.loads = np.array(state["loads"], np.float64)
        return made


def fit(
    method: str, subscriptions: pa.Table, sample: pa.Table | None, n_shards: int, space: Space
) -> tuple[Partition, Array]:
    """Split subscriptions into shards; returns the partition and the shard of each.

    Parameters
    ----------
    method
        ``"dkm"``, ``"keyword"``, ``"space"`` or ``"hash"``.
    subscriptions
        In the columnar form.
    sample
        Messages like those to come, in the columnar form; None or empty if there are none yet.
    """
    if method not in METHODS:
        raise InvalidInput("method", method, f"must be one of {', '.join(METHODS)}")
    partition = Partition(n_shards)
    return partition, partition.assign(subscriptions)


def place_of(subscription_id: str | int) -> int:
    """A number from 0 to 2**32 - 1 that depends on the id and its type alone."""
    kind = "#" if isinstance(subscription_id, int) else "$"
    return zlib.crc32(f"{kind}{subscription_id}".encode("utf-8", "surrogatepass"))


def owner_of(subscription_id: str | int, n_shards: int) -> int:
    """The shard that holds this subscription."""
    return place_of(subscription_id) % n_shards


def spark_partition(key: int, n_partitions: int) -> int:
    """The partition to which Spark's shuffle sends a 32-bit integer key."""
    hashed = _murmur3(key)
    signed = hashed - (1 << 32) if hashed >= 1 << 31 else hashed
    return signed % n_partitions


def shard_key(shard: int, n_shards: int) -> int:
    """The smallest key, from 0 on, that Spark sends to the partition numbered `shard`."""
    key = 0
    while spark_partition(key, n_shards) != shard:
        key += 1
    return key


def _murmur3(value: int) -> int:
    """Murmur3 (x86, 32 bit) of one integer, with Spark's seed."""
    k = (value & _MASK) * 0xCC9E2D51 & _MASK
    k = _rotate(k, 15) * 0x1B873593 & _MASK
    h = (_rotate(_SPARK_SEED ^ k, 13) * 5 + 0xE6546B64) & _MASK
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    return h ^ h >> 16


def _rotate(value: int, by: int) -> int:
    return (value << by | value >> (32 - by)) & _MASK
