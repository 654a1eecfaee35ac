"""What nobody needs any more is forgotten now and then: words that nothing holds, messages that no result holds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nearcast.columns.arena import State
from nearcast.columns.subscription_tables import PointTable, WithinTable
from nearcast.engines.contract import Keeper
from nearcast.text.vocabulary import Vocabulary
from nearcast.window.window import LiveMessages

_LEAST = 4096  # words or messages not worth a sweep


class Sweeper:
    """Sweeps when there is twice as much as the last sweep left, so that its cost stays in step with what comes in.

    Whatever brings words must ask: messages and subscriptions alike.
    """

    def __init__(
        self,
        live: LiveMessages,
        vocabulary: Vocabulary,
        tables: Mapping[int, WithinTable | PointTable],
        nearest: PointTable,
        keepers: Mapping[int, Keeper],
    ) -> None:
        self._live = live
        self._vocabulary = vocabulary
        self._tables = tables
        self._nearest = nearest  # without a window only these keep messages
        self._keepers = keepers
        self._n_terms = 0  # words left by the last sweep
        self._n_kept = 0  # messages left by the last sweep, without a window

    def sweep(self) -> None:
        """Forget words that nothing holds and, without a window, messages that no result holds."""
        if self._live.window is None:
            self._sweep_messages()
        if len(self._vocabulary) > 2 * self._n_terms + _LEAST:
            self._sweep_words()

    def _sweep_messages(self) -> None:
        table = self._live.table
        if not len(table):
            self._n_kept = 0
        if not len(table) or (len(self._nearest) and len(table) <= 2 * self._n_kept + _LEAST):
            return
        held = np.zeros(table.ids.keys.capacity, dtype=bool)
        if len(self._nearest):
            for keeper in self._keepers.values():
                keeper.mark_messages(held)
        self._live.keep_only(held)
        self._n_kept = len(table)

    def _sweep_words(self) -> None:
        used = np.zeros(self._vocabulary.capacity, dtype=bool)
        for holder in (self._live.table, *self._tables.values()):
            holder.mark_terms(used)
        terms = self._vocabulary.keys.numbers()
        self._vocabulary.free(terms[~used[terms]])
        self._n_terms = len(self._vocabulary)

    def state(self) -> State:
        return {"terms": self._n_terms, "kept": self._n_kept}

    def load(self, state: State) -> None:
        self._n_terms, self._n_kept = state["terms"], state["kept"]
