from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nearcast.text.key_kernels import find_one
from nearcast.text.key_table import Keys
from nearcast.text.strings import arrow_bytes

# few letters, so that equal keys are common; one long key now and then, so that the arena grows in one step
KEY = st.one_of(st.binary(max_size=2), st.text("ab", max_size=9).map(str.encode), st.binary(min_size=200, max_size=300))


def packed(keys):
    starts = np.zeros(len(keys) + 1, np.int64)
    np.cumsum([len(k) for k in keys], out=starts[1:])
    return np.frombuffer(b"".join(keys), np.uint8).copy(), starts


def unpacked(data, starts):
    return [data[a:b].tobytes() for a, b in pairwise(starts)]


class KeysMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.keys = Keys()
        self.found = {}  # key -> number
        self.held = {}  # number -> key

    @rule(batch=st.lists(KEY, max_size=30))
    def add(self, batch):
        numbers = self.keys.add_many(*packed(batch)).tolist()
        for key, number in zip(batch, numbers, strict=True):
            assert self.found.setdefault(key, number) == number
            assert self.held.setdefault(number, key) == key

    @rule(batch=st.lists(KEY, max_size=30))
    def store(self, batch):
        for key, number in zip(batch, self.keys.store_many(*packed(batch)).tolist(), strict=True):
            assert number not in self.held
            self.held[number] = key

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def free(self, data):
        numbers = data.draw(st.lists(st.sampled_from(sorted(self.held)), unique=True))
        self.keys.free_many(np.array(numbers, np.int32))
        for number in numbers:
            key = self.held.pop(number)
            if self.found.get(key) == number:
                del self.found[key]

    @rule(batch=st.lists(KEY, max_size=30))
    def replace(self, batch):
        for key, number in zip(batch, self.keys.replace_many(*packed(batch)).tolist(), strict=True):
            assert number not in self.held
            self.held[number] = key
            self.found[key] = number

    @rule(batch=st.lists(KEY, max_size=30))
    def find(self, batch):
        data, starts = packed(batch)
        expected = [self.found.get(key, -1) for key in batch]
        assert self.keys.find_many(data, starts).tolist() == expected
        layout = self.keys.layout
        assert [find_one(layout, data, starts[i], starts[i + 1]) for i in range(len(batch))] == expected

    @rule()
    def reload(self):
        copy = {name: np.array(array) for name, array in self.keys.state().items()}
        self.keys = Keys().load(copy)

    @invariant()
    def agrees(self):
        assert len(self.keys) == len(self.held)
        numbers = sorted(self.held)
        assert self.keys.numbers().tolist() == numbers
        assert self.keys.capacity > max(numbers, default=-1)
        assert unpacked(*self.keys.take(np.array(numbers, np.int32))) == [self.held[n] for n in numbers]
        found = sorted(self.found)
        assert self.keys.find_many(*packed(found)).tolist() == [self.found[key] for key in found]


TestKeysMachine = KeysMachine.TestCase
TestKeysMachine.settings = settings(deadline=None, stateful_step_count=20, max_examples=60)


def test_numbers_are_reused_and_the_arena_is_compacted():
    keys = Keys()
    for round_ in range(40):
        batch = [b"key-%d-%d" % (round_, i) for i in range(200)]
        numbers = keys.add_many(*packed(batch))
        assert unpacked(*keys.take(numbers)) == batch
        keys.free_many(numbers)
    assert len(keys) == 0
    assert keys.capacity == 200
    assert keys.nbytes < 30_000
    assert keys.find_many(*packed([b"key-39-7"])).tolist() == [-1]


def test_freeing_what_is_not_there_is_a_bug():
    keys = Keys()
    numbers = keys.add_many(*packed([b"a"]))
    keys.free_many(numbers)
    with pytest.raises(AssertionError, match="freed a number that holds no key"):
        keys.free_many(numbers)
    with pytest.raises(AssertionError, match="read a number that holds no key"):
        keys.take(numbers)


def test_adding_nothing():
    keys = Keys()
    assert keys.add_many(*packed([])).tolist() == []
    assert keys.take(np.zeros(0, np.int32))[1].tolist() == [0]
    assert keys.to_arrow_strings(np.zeros(0, np.int32)).to_pylist() == []


@settings(deadline=None)
@given(st.lists(st.text(max_size=5), max_size=12))
def test_arrow_strings_come_back(rows):
    keys = Keys()
    assert keys.to_arrow_strings(keys.store_many(*arrow_bytes(pa.array(rows, pa.string())))).to_pylist() == rows


def test_a_mapped_state_is_adopted_and_the_file_left_alone(tmp_path):
    keys = Keys()
    keys.add_many(*packed([b"sea", b"sun"]))
    mapped = {}
    for name, array in keys.state().items():
        np.save(tmp_path / f"{name}.npy", array)
        mapped[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="c").view(array.dtype)  # a file forgets alignment
    second = Keys().load(mapped)
    assert np.shares_memory(second.layout.slots, mapped["slots"])
    assert second.add_many(*packed([b"sun", b"sky", b"sea"])).tolist() == [1, 2, 0]
    second.free_many(np.array([0], np.int32))
    again = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="c").view(old.dtype) for name, old in mapped.items()}
    third = Keys().load(again)
    assert third.find_many(*packed([b"sea", b"sun", b"sky"])).tolist() == [0, 1, -1]


def test_a_state_without_keys():
    keys = Keys().load({name: np.array(array) for name, array in Keys().state().items()})
    assert keys.find_many(*packed([b"a", b""])).tolist() == [-1, -1]
    assert keys.add_many(*packed([b"a", b""])).tolist() == [0, 1]


def test_room_that_was_asked_for_is_there() -> None:
    many = [str(n).encode() for n in range(1000)]
    data, starts = packed(many)
    keys = Keys(len(many), data.size)
    before = keys.nbytes
    assert keys.add_many(data, starts).tolist() == list(range(1000))
    assert keys.nbytes == before
    keys.store_many(data, starts)
    assert len(keys) == 2000
    assert keys.nbytes < 3 * before
