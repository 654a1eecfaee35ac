"""Matches are put in the order of events and slots, few or many."""

from __future__ import annotations

import numpy as np
import pytest

from nearcast.engines.within.match_order import Span, new_sort_room, sort_matches, with_sort_room


@pytest.mark.parametrize("n", [0, 1, 2, 48, 49, 3000])
@pytest.mark.parametrize("largest", [1, 2047, 2048, 1_000_000, 2**31 - 1])
def test_matches_are_sorted_by_event_and_slot(n, largest):
    rng = np.random.default_rng(n)
    events = rng.integers(5, 40, n).astype(np.int32)
    slots = rng.integers(0, largest, n, endpoint=True).astype(np.int32)
    right = sorted(zip(events.tolist(), slots.tolist(), strict=True))
    room = with_sort_room(new_sort_room(), n, 40)
    sort_matches(slots, events, n, Span(5, 40), room)
    assert list(zip(room.events[:n].tolist(), room.slots[:n].tolist(), strict=True)) == right
