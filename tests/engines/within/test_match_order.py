"""Matches are put in the order of events and slots, few or many."""

from __future__ import annotations

import numpy as np
import pytest

from nearcast.engines.within.match_order import DIGIT, Group, Matches, bits_of, sort_keys_of, write_matches


@pytest.mark.parametrize("n", [0, 1, 2, 48, 49, 3000])
@pytest.mark.parametrize("slot_bits", [0, 1, 11, 12, 20, 26])
def test_matches_are_sorted_by_event_and_slot(n, slot_bits):
    rng = np.random.default_rng(n)
    events = rng.integers(5, 36, n)
    slots = rng.integers(0, 1 << slot_bits, n)
    right = sorted(zip(events.tolist(), slots.tolist(), strict=True))
    keys, spare = (events - 5 << slot_bits | slots).astype(np.int32), np.zeros(n, np.int32)
    in_spare = sort_keys_of(keys, spare, n, np.zeros(1 << DIGIT, np.int32))
    out = Matches(*(np.zeros(n + 2, np.int32) for _ in range(3)))
    stored = np.arange(100, 136, dtype=np.int32)
    write_matches(spare if in_spare else keys, n, Group(np.int32(5), slot_bits), stored, out, 2)
    assert list(zip(out.events[2:].tolist(), out.slots[2:].tolist(), strict=True)) == right
    assert (out.arrivals[2:] == out.events[2:] + 100).all()


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 2**20, 2**20 + 1])
def test_any_slot_fits_in_its_bits(n):
    assert bits_of(n) == max(0, n - 1).bit_length()
