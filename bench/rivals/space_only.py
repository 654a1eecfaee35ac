"""The space-only worker index: any-word subscriptions by cell, whatever their words."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs, with_room
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.subscription_tables import POINT, PointLayout
from nearcast.engines.nearest.engine import NearestEngine
from nearcast.engines.nearest.grid import GridPyramid, GridSettings
from nearcast.space.space import Space
from nearcast.window.live import Steps


class SpaceOnly(GridPyramid):
    """The grid with one list in each cell.

    Paper: [DKMSKS] 3.2, the worker of space-oriented partition.
    """

    def __init__(self, space: Space, settings: GridSettings) -> None:
        super().__init__(space, settings)
        self._rows = np.zeros(0, dtype=POINT)

    def file(
        self, filed: Array, subscriptions: PointLayout, buffers: Array, slots: Ints, n_all: int, n_terms: int
    ) -> None:
        given, one = subscriptions.rows[slots], np.zeros(1, dtype=np.int32)
        given["term_start"], given["n_terms"] = 0, 1
        self._rows = with_room(self._rows, subscriptions.rows.size)
        self._rows[slots] = given
        super().file(filed, subscriptions._replace(rows=self._rows, terms=one), buffers, slots, n_all, 1)

    def find(
        self, filed: Array, steps: Steps, first: int, end: int, messages: MessageLayout, pairs: Longs
    ) -> tuple[int, int]:
        rows, one = messages.rows[steps.arrivals[first:end]], np.zeros(1, dtype=np.int32)
        rows["term_start"], rows["n_terms"] = 0, 1
        numbers = np.arange(steps.arrivals.size) - first
        part = steps._replace(arrivals=np.where(steps.arrivals >= 0, numbers, -1).astype(np.int32))
        return super().find(filed, part, first, end, messages._replace(rows=rows, terms=one, counts=one), pairs)


class SpaceOnlyEngine(NearestEngine):
    """`Nearest` with the space-only index for any word."""

    def start(self) -> None:
        super().start()
        self.any_word = SpaceOnly(self.context.space, GridSettings())
