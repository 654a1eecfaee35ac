from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.columns.arena import Ragged, Slots, owned, ranges, record, with_room


def test_with_room_returns_the_array_while_it_is_large_enough() -> None:
    array = np.arange(5)
    assert with_room(array, 5) is array
    assert with_room(array, 0) is array


def test_with_room_doubles_and_fills_with_zeros() -> None:
    grown = with_room(np.arange(1, 101, dtype=np.int32), 101)
    assert grown.size == 200
    assert grown.dtype == np.int32
    assert grown[:100].tolist() == list(range(1, 101))
    assert not grown[100:].any()
    assert with_room(np.zeros(0), 1).size == 16
    assert with_room(np.zeros(3), 1000).size == 1000


def test_with_room_adds_an_eighth_to_large_arrays() -> None:
    grown = with_room(np.ones(80_000, np.int8), 80_001)
    assert grown.size == 90_000
    assert grown.sum() == 80_000


def test_owned_makes_arrays_that_kernels_take() -> None:
    frozen = np.arange(10)
    frozen.flags.writeable = False
    for array in (frozen, np.arange(20)[::2], np.broadcast_to(np.int64(3), 4)):
        mine = owned(array)
        assert mine.flags.writeable
        assert mine.flags.c_contiguous
        assert (mine == array).all()
    own = np.arange(3)
    assert owned(own) is own


def test_records_have_attributes() -> None:
    rows = np.zeros(2, dtype=record(("number", "i4"), ("weight", "f8")))
    rows[1].number = 7
    row = rows[1]
    row.weight = 0.5
    assert (rows["number"].tolist(), rows["weight"].tolist()) == ([0, 7], [0.0, 0.5])
    assert rows.dtype.isalignedstruct
    assert record(("weight", "f8"), ("number", "i2"), packed=True).itemsize == 10


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 5)), max_size=20))
def test_ranges(rows: list[tuple[int, int]]) -> None:
    starts = np.array([start for start, _ in rows], dtype=np.int64)
    lengths = np.array([length for _, length in rows], dtype=np.int32)
    expected = [start + i for start, length in rows for i in range(length)]
    assert ranges(starts, lengths).tolist() == expected


@settings(max_examples=50)
@given(st.lists(st.one_of(st.integers(0, 6), st.lists(st.integers(0, 100), max_size=6)), max_size=30))
def test_slots_are_held_by_one_owner(steps: list[int | list[int]]) -> None:
    slots, held = Slots(), []
    for step in steps:
        if isinstance(step, int):
            taken = slots.take(step).tolist()
            assert len(set(taken)) == step
            assert not set(taken) & set(held)
            held += taken
        else:
            back = [held.pop(i % len(held)) for i in step if held]
            slots.give(np.array(back, dtype=np.int32))
        assert len(slots) == len(held)
        assert slots.capacity >= len(held)
        assert all(slot < slots.capacity for slot in held)
    other = Slots()
    other.load(slots.state())
    assert len(other) == len(held)
    assert not set(other.take(5).tolist()) & set(held)


def test_slots_come_back_last_first_before_new_ones() -> None:
    slots = Slots()
    assert slots.take(4).tolist() == [0, 1, 2, 3]
    slots.give(np.array([1, 3], dtype=np.int32))
    assert slots.take(3).tolist() == [3, 1, 4]
    assert slots.nbytes > 0


class RaggedRows:
    """A Ragged beside the plain lists that it should hold."""

    def __init__(self) -> None:
        self.ragged = Ragged(terms=np.int32, weights=np.float64)
        self.starts: list[int] = []
        self.rows: list[list[int]] = []

    def append(self, rows: list[list[int]]) -> None:
        flat = np.array([value for row in rows for value in row], dtype=np.int32)
        lengths = np.array([len(row) for row in rows], dtype=np.int32)
        self.starts += self.ragged.append(lengths, terms=flat, weights=flat / 2).tolist()
        self.rows += rows

    def drop(self, keep: list[bool]) -> None:
        gone = [len(row) for row, stays in zip(self.rows, keep, strict=True) if not stays]
        self.ragged.drop(np.array(gone, dtype=np.int32))
        self.starts = [start for start, stays in zip(self.starts, keep, strict=True) if stays]
        self.rows = [row for row, stays in zip(self.rows, keep, strict=True) if stays]

    def compact(self) -> None:
        lengths = np.array([len(row) for row in self.rows], dtype=np.int32)
        self.starts = self.ragged.compact(np.array(self.starts, dtype=np.int64), lengths).tolist()

    def check(self, ragged: Ragged) -> None:
        for start, row in zip(self.starts, self.rows, strict=True):
            assert ragged.pools["terms"][start : start + len(row)].tolist() == row
            assert ragged.pools["weights"][start : start + len(row)].tolist() == [value / 2 for value in row]


@settings(max_examples=50)
@given(st.lists(st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=8), max_size=6), st.randoms())
def test_ragged_rows_stay_what_they_were(batches: list[list[list[int]]], random) -> None:
    rows = RaggedRows()
    for batch in batches:
        rows.append(batch)
        rows.check(rows.ragged)
        rows.drop([random.random() < 0.5 for _ in rows.rows])
        rows.check(rows.ragged)
        if random.random() < 0.5:
            rows.compact()
            assert rows.ragged.dead == 0
            assert rows.ragged.used == sum(map(len, rows.rows))
        rows.check(rows.ragged)
        other = Ragged(terms=np.int32, weights=np.float64)
        other.load(rows.ragged.state())
        rows.check(other)
        assert (other.used, other.dead) == (rows.ragged.used, rows.ragged.dead)


def test_a_ragged_is_wasteful_when_more_than_half_is_dead() -> None:
    ragged = Ragged(terms=np.int32)
    ragged.append(np.full(10, 500), terms=np.zeros(5000, np.int32))
    ragged.drop(np.full(5, 500))
    assert not ragged.wasteful
    ragged.drop(np.array([1]))
    assert ragged.wasteful
    small = Ragged(terms=np.int32)
    small.append(np.array([100]), terms=np.zeros(100, np.int32))
    small.drop(np.array([100]))
    assert not small.wasteful, "a little waste is not worth the work"


def test_ragged_memory_settles_under_churn() -> None:
    rows = RaggedRows()
    sizes = []
    for _ in range(200):
        rows.append([[1] * 20 for _ in range(10)])
        rows.drop([False] * (len(rows.rows) - 10) + [True] * 10)
        if rows.ragged.wasteful:
            rows.compact()
        sizes.append(rows.ragged.nbytes)
    rows.check(rows.ragged)
    assert max(sizes[100:]) <= max(sizes[:100])


def test_an_empty_ragged_can_be_stored_and_goes_on() -> None:
    ragged = Ragged(terms=np.int32)
    ragged.load(Ragged(terms=np.int32).state())
    assert ragged.append(np.array([0, 2]), terms=np.array([4, 5], np.int32)).tolist() == [0, 0]
    assert ragged.pools["terms"][:2].tolist() == [4, 5]


@pytest.mark.parametrize("lengths", [[], [0], [0, 0]])
def test_compacting_nothing(lengths: list[int]) -> None:
    ragged = Ragged(terms=np.int32)
    ragged.append(np.array([3]), terms=np.array([1, 2, 3], np.int32))
    starts = ragged.compact(np.zeros(len(lengths), np.int64), np.array(lengths, np.int64))
    assert starts.tolist() == [0] * len(lengths)
    assert ragged.used == 0
