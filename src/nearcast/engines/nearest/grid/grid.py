"""`GridPyramid` owns the arrays of the grids, grows them, and finds which subscriptions arrivals may concern."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs, State, ranges, with_room
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.subscription_tables import PointLayout
from nearcast.engines.blocks import N_HEADS as N_RANGES
from nearcast.engines.blocks import USED, block_class, block_room
from nearcast.engines.contract import Stats
from nearcast.engines.nearest.grid.insert import file_many, finest, note_levels, rehash, remove_many
from nearcast.engines.nearest.grid.layout import (
    CANDIDATES,
    DEEPEST,
    ENTRY,
    FULL,
    LEVELS,
    LIST,
    N_DEAD,
    N_HEADS,
    N_LISTS,
    NO_BLOCK,
    NO_LIST,
    NOTED,
    TAKEN,
    TOUCHED,
    UNLINKED,
    GridLayout,
    bit_of,
    place_of,
)
from nearcast.engines.nearest.grid.match import FindCall, find_held
from nearcast.engines.nearest.grid.sweep import pack, sweep_some
from nearcast.held import HeldCall
from nearcast.model.checks import whole
from nearcast.space.space import Space
from nearcast.window.live import Steps

LEAST = 1024  # dead entries not worth a sweep
_PACE = 8  # places of lists, and slots, that are looked at for each subscription that is filed or ends


@dataclass(frozen=True, slots=True)
class GridSettings:
    """Parameters of the grid.

    Parameters
    ----------
    finest
        The finest grid has 2**finest columns and rows; by default about four cells for each subscription.
    """

    finest: int | None = None

    def __post_init__(self) -> None:
        if self.finest is not None:
            whole("finest", self.finest, 0, DEEPEST)


class GridPyramid:
    """Subscriptions by cell and word."""

    def __init__(self, space: Space, settings: GridSettings) -> None:
        self._space_input = space.kernel_input
        self._settings = settings
        self._layout = GridLayout(
            np.zeros(N_HEADS, np.int64), np.zeros(16, LIST), np.zeros(16, np.uint8), np.zeros(16, ENTRY),
            np.zeros(N_RANGES, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32),
        )  # fmt: skip
        self._n_filed = 0  # entries that are alive
        self._find: HeldCall[FindCall] = HeldCall(find_held)

    def deepest(self, n_all: int) -> int:
        """Level of the finest grid for `n_all` subscriptions."""
        return finest(n_all) if self._settings.finest is None else self._settings.finest

    def file(
        self, filed: Array, subscriptions: PointLayout, buffers: Array, slots: Ints, n_all: int, n_terms: int
    ) -> None:
        """File these subscriptions, each once, by the balls that they have now."""
        grid = self._layout
        self._layout = grid._replace(
            levels=with_room(grid.levels, n_terms),
            coming=with_room(grid.coming, n_terms),
        )
        self._n_filed -= int(filed["n_rows"][slots].sum())
        done = 0
        while True:
            done += file_many(
                self._layout, filed, subscriptions, buffers, slots[done:], self._space_input, self.deepest(n_all)
            )
            if done == slots.size:
                break
            self._grow(int(subscriptions.rows["n_terms"][slots[done]]))
        self._n_filed += int(filed["n_rows"][slots].sum())
        self._refresh_levels(filed, subscriptions, slots.size)
        self._sweep(filed, slots.size)

    def _grow(self, n_lists: int) -> None:
        """Room for `n_lists` more lists, and for any list to grow."""
        grid = self._layout
        n_lists += int(grid.heads[N_LISTS])
        least = FULL[1] * n_lists // FULL[0] + 1
        if least > grid.lists.size:
            grid = self._rehashed(max(least, grid.lists.size * 9 // 8))
        lists = grid.lists[grid.lists["start"] >= 0]
        longest = int(block_room(block_class(int(lists["n_rows"].max(initial=1)) + 1)))
        self._layout = grid._replace(entries=with_room(grid.entries, int(grid.ranges[USED]) + longest + n_lists // 16))

    def _rehashed(self, n_places: int) -> GridLayout:
        """The grid with `n_places` places for lists."""
        old = self._layout
        grid = old._replace(lists=np.zeros(n_places, dtype=LIST), known=np.zeros(n_places, np.uint8))
        rehash(old.lists, grid)
        return grid

    def _refresh_levels(self, filed: Array, subscriptions: PointLayout, n_slots: int) -> None:
        """Look at some subscriptions; after all were, words drop the levels that none of theirs is filed at."""
        grid, heads = self._layout, self._layout.heads
        n_all = min(filed.size, subscriptions.rows.size)
        end = min(n_all, int(heads[NOTED]) + _PACE * n_slots)
        note_levels(grid, filed, subscriptions, int(heads[NOTED]), end)
        heads[NOTED] = end
        if end == n_all:
            grid.levels[:] = grid.coming
            grid.coming[:] = 0
            heads[LEVELS], heads[NOTED] = np.bitwise_or.reduce(grid.levels, initial=0), 0

    def remove(self, filed: Array, slots: Ints) -> None:
        """These subscriptions end."""
        self._n_filed -= int(filed["n_rows"][slots].sum())
        remove_many(self._layout, filed, slots)
        self._sweep(filed, slots.size)

    def _sweep(self, filed: Array, n_slots: int) -> None:
        if self._layout.heads[N_DEAD] > self._n_filed // 32 + LEAST:
            # Twice around is enough for everything, whatever lists are removed on the way.
            sweep_some(self._layout, filed, min(_PACE * n_slots, 2 * self._layout.lists.size))
            grid, heads = self._layout, self._layout.heads
            if 2 * grid.lists.size > 3 * (heads[N_LISTS] + LEAST):
                self._layout = self._rehashed(5 * int(heads[N_LISTS]) // 4 + 16)
            if 4 * grid.ranges[USED] > 5 * (heads[TAKEN] + LEAST):
                self._pack()

    def _pack(self) -> None:
        """Give back the room that lists have left behind, most of it when balls closed."""
        grid = self._layout
        taken = int(grid.heads[TAKEN])
        entries, free = np.zeros(taken + taken // 8 + 16, dtype=ENTRY), np.zeros(N_RANGES, dtype=np.int64)
        pack(grid, entries, free)
        self._layout = grid._replace(entries=entries, ranges=free)

    def find(
        self, filed: Array, steps: Steps, first: int, end: int, messages: MessageLayout, pairs: Longs
    ) -> tuple[int, int]:
        """Candidates for the arrivals from event `first` on: the event to go on with, and the number of pairs."""
        if not self._layout.heads[N_LISTS]:  # nobody asks for any word: what would look for them need not be compiled
            return end, 0
        call = FindCall(self._layout, filed, steps, messages, self._space_input, pairs)
        event, n = self._find(call, first, end)
        return event, n

    def check(self, filed: Array, slots: Ints) -> None:
        """Assert that exactly these subscriptions have exactly the entries that they count."""
        grid = self._layout
        heads, lists, entries = grid.heads, grid.lists, grid.entries
        used = lists[lists["hash"] != NO_LIST]
        assert used.size == heads[N_LISTS]
        places = np.flatnonzero(lists["hash"] != NO_LIST).tolist()
        assert [place_of(lists, wanted) for wanted in used["hash"].tolist()] == places
        bits = np.unique([bit_of(lists, wanted) for wanted in used["hash"].tolist()])
        assert (np.flatnonzero(np.unpackbits(grid.known, bitorder="little")) == bits).all()
        single, several = used[used["start"] < 0], used[(used["start"] >= 0) & (used["size_class"] != NO_BLOCK)]
        starts = several["start"].astype(np.int64)
        rooms = np.array([block_room(n) for n in several["size_class"].tolist()], dtype=np.int64)
        assert (several["n_rows"] <= rooms).all()
        assert rooms.sum() == heads[TAKEN]
        assert np.unique(ranges(starts, rooms)).size == rooms.sum(), "lists overlap"
        rows = entries[ranges(starts, several["n_rows"])]
        owners = np.concatenate([rows["slot"], ~single["start"]])
        alive = filed["generation"][owners] == np.concatenate([rows["generation"], single["n_rows"]])
        seen = np.bincount(owners[alive], minlength=filed.size)
        assert int((~alive).sum()) == heads[N_DEAD]
        assert int(alive.sum()) == self._n_filed
        assert (seen[slots] == filed["n_rows"][slots]).all()

    @property
    def nbytes(self) -> int:
        """Bytes in use; room ahead is never touched, so the system has not given it out yet."""
        grid = self._layout
        entries = grid.entries[: grid.ranges[USED]]
        return sum(array.nbytes for array in (grid.lists, grid.known, entries, grid.levels, grid.coming))

    def stats(self) -> Stats:
        heads = self._layout.heads
        return {
            "entries": self._n_filed,
            "lists": int(heads[N_LISTS]),
            "dead": int(heads[N_DEAD]),
            "touched": int(heads[TOUCHED]),
            "candidates": int(heads[CANDIDATES]),
            "unlinked": int(heads[UNLINKED]),
            "bytes": self.nbytes,
        }

    def state(self) -> State:
        grid = self._layout
        return {**grid._asdict(), "entries": grid.entries[: grid.ranges[USED]], "n_filed": self._n_filed}

    def load(self, state: State) -> None:
        self._layout = GridLayout(*(state[name] for name in GridLayout._fields))
        self._n_filed = state["n_filed"]
