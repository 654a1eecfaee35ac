from __future__ import annotations

import numpy as np
import pyarrow as pa

from nearcast.broker.registry import Registry
from nearcast.columns.times import FOREVER


def add(
    registry: Registry, ids: list[str], kind: int, expires: list[int] | None = None, first_slot: int = 0
) -> np.ndarray:
    numbers = registry.add(pa.array(ids), kind)
    slots = np.arange(first_slot, first_slot + len(ids), dtype=np.int32)
    registry.place(numbers, slots, np.array(expires or [FOREVER] * len(ids)))
    return numbers


def test_ids_lead_to_kind_and_slot() -> None:
    registry = Registry()
    add(registry, ["ann", "bob"], 2, first_slot=5)
    add(registry, ["cid"], 0, first_slot=9)
    assert len(registry) == 3
    assert [registry.where(registry.find(id)) for id in ("ann", "bob", "cid")] == [(2, 5), (2, 6), (0, 9)]
    assert registry.find("dan") == -1
    assert registry.find(1) == -1
    assert registry.find_many(pa.array(["bob", "x", "cid"])).tolist() == [1, -1, 2]
    kinds = registry.by_kind(registry.find_many(pa.array(["cid", "ann", "bob"])))
    assert [(kind, slots.tolist()) for kind, slots in kinds] == [(0, [9]), (2, [5, 6])]
    registry.remove(registry.find_many(pa.array(["ann"])))
    assert registry.find("ann") == -1
    assert len(registry) == 2


def test_integer_ids() -> None:
    registry = Registry()
    registry.place(registry.add(pa.array([7, -1]), 1), np.array([0, 1], np.int32), np.array([FOREVER] * 2))
    assert registry.ids.type == "integer"
    assert registry.where(registry.find(-1)) == (1, 1)
    assert registry.find("7") == -1


def test_what_ends_is_told_once() -> None:
    registry = Registry()
    numbers = add(registry, ["a", "b", "c", "d"], 0, [5, FOREVER, 3, 5])
    assert registry.ended(2).size == 0
    assert registry.ended(4).tolist() == [numbers[2]]
    assert registry.ended(4).size == 0
    assert sorted(registry.ended(100).tolist()) == [numbers[0], numbers[3]]


def test_an_id_that_is_used_again_does_not_end_with_its_forerunner() -> None:
    registry = Registry()
    numbers = add(registry, ["a"], 0, [5])
    registry.remove(numbers)
    again = add(registry, ["a"], 1, [9])
    assert again.tolist() == numbers.tolist(), "the number is used again"
    assert registry.ended(5).size == 0
    assert registry.ended(9).tolist() == again.tolist()


def test_expiries_of_what_is_gone_are_forgotten() -> None:
    registry = Registry()
    sizes = []
    for n in range(40):
        ids = [f"{n}-{i}" for i in range(200)]
        registry.remove(add(registry, ids, 0, [10**9] * 200))
        sizes.append(registry.nbytes)
    assert len(registry) == 0
    assert max(sizes[20:]) <= 1.5 * max(sizes[:20])


def test_a_registry_is_what_it_was_after_load() -> None:
    registry, other = Registry(), Registry()
    add(registry, ["a", "b"], 3, [5, FOREVER])
    other.load(registry.state())
    assert other.where(other.find("b")) == (3, 1)
    assert other.ended(5).tolist() == [other.find("a")]
    add(other, ["c"], 1, first_slot=7)
    assert other.where(other.find("c")) == (1, 7)
