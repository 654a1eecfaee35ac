"""Shards by id, and the keys that Spark sends to them."""

from __future__ import annotations

from collections import Counter

from nearcast.partition.partition import owner_of, place_of, shard_key, spark_partition


def test_places_never_change() -> None:
    assert [place_of(id_) for id_ in ("ann", "", "straße", 0, 7, -(2**63))] == [
        376785940,
        3993045852,
        223166070,
        3651753266,
        1204666513,
        153283126,
    ]


def test_a_number_and_its_digits_are_two_ids() -> None:
    assert place_of(7) != place_of("7")


def test_owners_are_spread_evenly() -> None:
    held = Counter(owner_of(f"s{i}", 4) for i in range(10_000))
    assert sorted(held) == [0, 1, 2, 3]
    assert min(held.values()) > 2_300


def test_every_shard_has_a_key_of_its_own() -> None:
    for n in (1, 2, 3, 8, 17):
        keys = [shard_key(i, n) for i in range(n)]
        assert len(set(keys)) == n
        assert [spark_partition(key, n) for key in keys] == list(range(n))


def test_hashes_are_sparks() -> None:
    # SELECT hash(0), hash(1), hash(-1); `tests/spark/test_stream.py` asks Spark itself
    said = [933211791, -559580957, -1604776387]
    assert [spark_partition(key, 1_000_003) for key in (0, 1, -1)] == [h % 1_000_003 for h in said]
