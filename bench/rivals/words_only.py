"""The keyword-only worker index: one inverted file of all any-word subscriptions, wherever they are."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs
from nearcast.columns.subscription_tables import PointLayout
from nearcast.engines.kept.layout import BUFFER
from nearcast.engines.nearest.engine import NearestEngine
from nearcast.engines.nearest.grid import GridPyramid, GridSettings
from nearcast.space.space import Space


class WordsOnly(GridPyramid):
    """The grid with one cell, in which everybody is filed as if nothing had been found yet.

    Paper: [DKMSKS] section 3.1, the worker of keyword-oriented partition.
    """

    def __init__(self, space: Space) -> None:
        super().__init__(space, GridSettings(finest=0))
        self._open = np.zeros(0, dtype=BUFFER)

    def file(
        self, filed: Array, subscriptions: PointLayout, buffers: Array, slots: Ints, n_all: int, n_terms: int
    ) -> None:
        if self._open.size < buffers.size:
            self._open = np.zeros(buffers.size, dtype=BUFFER)
            self._open["floor"] = -np.inf
        super().file(filed, subscriptions, self._open, slots, n_all, n_terms)


class WordsOnlyEngine(NearestEngine):
    """`Nearest` with the keyword-only index for any word: whoever shares a word is compared by distance."""

    def start(self) -> None:
        super().start()
        self.any_word = WordsOnly(self.context.space)

    def _follow_ranges(self, slots: Longs) -> None:
        """Nobody is filed by a ball."""
