"""Lists of the grid for any word, found by hash although few places are free."""

from __future__ import annotations

import random

import numpy as np

from nearcast.engines.blocks import N_HEADS as N_RANGES
from nearcast.engines.nearest.grid.layout import (
    ENTRY,
    FULL,
    LIST,
    N_HEADS,
    NO_LIST,
    GridLayout,
    make_place,
    may_have_list,
    note_list,
    place_of,
)
from nearcast.engines.nearest.grid.sweep import remove_list

N_PLACES = 64


def test_lists_are_found_while_others_come_and_go() -> None:
    choice = random.Random(1)
    none = np.zeros(0, dtype=np.int32)
    grid = GridLayout(
        np.zeros(N_HEADS, np.int64), np.zeros(N_PLACES, LIST), np.zeros(N_PLACES, np.uint8), np.zeros(1, ENTRY),
        np.zeros(N_RANGES, np.int64), none, none,
    )  # fmt: skip
    lists = grid.lists
    hashes = [choice.choice([choice.randrange(1, 2**31), 2**31 - 1 - choice.randrange(2**27)]) for _ in range(200)]
    there: dict[int, int] = {}  # hash -> what its list holds
    for n in range(2000):
        wanted = choice.choice(hashes)
        if wanted in there:
            remove_list(grid, place_of(lists, wanted))
            del there[wanted]
        elif FULL[1] * len(there) < FULL[0] * N_PLACES:
            place = place_of(lists, wanted)
            make_place(lists, place)
            lists[place]["hash"], lists[place]["n_rows"] = wanted, n
            note_list(grid, wanted)
            there[wanted] = n
        found = lists[[place_of(lists, wanted) for wanted in hashes]]
        assert [wanted for wanted, one in zip(hashes, found, strict=True) if one["hash"] == wanted] == [
            wanted for wanted in hashes if wanted in there
        ]
        assert all(lists[place_of(lists, wanted)]["n_rows"] == n for wanted, n in there.items())
        assert all(may_have_list(grid, wanted) for wanted in there)
        assert (lists["hash"] != NO_LIST).sum() == len(there)
    assert len(there) > N_PLACES // 2
