"""Who holds what: an id becomes the number of its shard, and a shard's number the key that Spark groups by.

Subscriptions are spread by a hash of their id that never changes (Python's own differs between processes). Spark
in turn sends a key to the partition `pmod(murmur3(key), n)`; `shard_key` finds for each shard a key that Spark sends to
the partition of that number, so that every partition has exactly one shard.
"""

from __future__ import annotations

import zlib

_MASK = 0xFFFFFFFF
_SPARK_SEED = 42


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
