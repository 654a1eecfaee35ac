"""`GridIndex` owns the arrays of the grid, grows them, and says which subscriptions arrivals may concern."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs, with_room
from nearcast.columns.messages import MessageLayout
from nearcast.columns.subscriptions import PointLayout
from nearcast.engines.contract import Stats
from nearcast.engines.nearest_any.file import file_many, finest, forget, n_needed, relink
from nearcast.engines.nearest_any.layout import (
    CANDIDATES,
    DEEPEST,
    END,
    ENTRY,
    FREE_ENTRY,
    N_DEAD,
    N_ENTRIES,
    N_HEADS,
    TOUCHED,
    UNLINKED,
    GridLayout,
)
from nearcast.engines.nearest_any.match import find_many, sweep_dead
from nearcast.errors import InvalidInput
from nearcast.space.space import Space
from nearcast.window.window import Steps

_LEAST = 1024  # dead entries not worth a sweep


@dataclass(frozen=True, slots=True)
class Settings:
    """Parameters of the grid.

    Parameters
    ----------
    finest
        The finest grid has 2**finest columns and rows; by default about one cell for each subscription.
    """

    finest: int | None = None

    def __post_init__(self) -> None:
        if self.finest is not None and not 0 <= self.finest <= DEEPEST:
            raise InvalidInput("finest", self.finest, f"must be from 0 to {DEEPEST}")


class GridIndex:
    """Subscriptions by cell and word."""

    def __init__(self, space: Space, settings: Settings) -> None:
        self._where = (space.metric_code, space.bounds)
        self._settings = settings
        heads = np.zeros(N_HEADS, dtype=np.int64)
        heads[FREE_ENTRY] = END
        self._layout = GridLayout(
            heads, np.full(16, END, np.int32), np.zeros(16, dtype=ENTRY), np.zeros(0, dtype=np.int32)
        )
        self._n_filed = 0

    def deepest(self, n_all: int) -> int:
        """Level of the finest grid for so many subscriptions."""
        return finest(n_all) if self._settings.finest is None else self._settings.finest

    def file(
        self, filed: Array, subscriptions: PointLayout, buffers: Array, slots: Ints, n_all: int, n_terms: int
    ) -> None:
        """File these subscriptions, each once, by the balls that they have now."""
        grid, heads = self._layout, self._layout.heads
        room = int(heads[N_ENTRIES]) + n_needed(subscriptions, slots)
        grid = grid._replace(entries=with_room(grid.entries, room), levels=with_room(grid.levels, n_terms))
        if room > grid.buckets.size:
            grid = grid._replace(buckets=np.full(1 << int(room).bit_length(), END, np.int32))
            relink(grid)
        self._layout = grid
        self._n_filed -= int(filed["n_rows"][slots].sum())
        file_many(grid, filed, subscriptions, buffers, slots, self._where, self.deepest(n_all))
        self._n_filed += int(filed["n_rows"][slots].sum())
        self._sweep(filed)

    def forget(self, filed: Array, slots: Ints) -> None:
        """These subscriptions end."""
        self._n_filed -= int(filed["n_rows"][slots].sum())
        forget(self._layout, filed, slots)
        self._sweep(filed)

    def _sweep(self, filed: Array) -> None:
        if self._layout.heads[N_DEAD] > self._n_filed + _LEAST:
            sweep_dead(self._layout, filed)

    def find(
        self, filed: Array, steps: Steps, first: int, end: int, messages: MessageLayout, pairs: Longs
    ) -> tuple[int, int]:
        """Candidates for the arrivals from event `first` on: the event to go on with, and the number of pairs."""
        event, n = find_many(self._layout, filed, steps, first, end, messages, self._where, pairs)
        return int(event), int(n)

    def check(self, filed: Array, slots: Ints) -> None:
        """Assert that exactly these subscriptions have exactly the entries that they count."""
        heads, buckets, entries, _ = self._layout
        seen = np.zeros(filed.size, dtype=np.int64)
        n_dead = n_linked = 0
        for first in buckets[buckets != END].tolist():
            at = first
            while at != END:
                entry = entries[at]
                alive = filed["generation"][entry["slot"]] == entry["generation"]
                seen[entry["slot"]] += int(alive)
                n_dead += int(not alive)
                n_linked += 1
                at = int(entry["next"])
        assert n_dead == heads[N_DEAD]
        assert int(seen.sum()) == self._n_filed
        assert n_linked <= heads[N_ENTRIES]
        assert (seen[slots] == filed["n_rows"][slots]).all()

    @property
    def nbytes(self) -> int:
        """Bytes in use; room ahead is never touched, so the system has not given it out yet."""
        heads, buckets, entries, levels = self._layout
        return buckets.nbytes + entries[: heads[N_ENTRIES]].nbytes + levels.nbytes

    def stats(self) -> Stats:
        heads = self._layout.heads
        return {
            "entries": self._n_filed,
            "dead": int(heads[N_DEAD]),
            "touched": int(heads[TOUCHED]),
            "candidates": int(heads[CANDIDATES]),
            "unlinked": int(heads[UNLINKED]),
            "bytes": self.nbytes,
        }
