"""What nobody needs any more is forgotten now and then: words that nothing holds, messages that no result holds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nearcast.broker.engines import Table
from nearcast.columns.arena import State
from nearcast.engines.contract import EngineContext, Engines, keeping
from nearcast.model.kinds import Kind

LEAST = 4096  # words or messages not worth a sweep


class Vacuum:
    """Sweeps when there is twice as much as the last sweep left, so that its cost stays in step with what comes in.

    Whatever brings words must ask: messages and subscriptions alike.
    """

    def __init__(self, context: EngineContext, tables: Mapping[Kind, Table], engines: Engines) -> None:
        self._live = context.live
        self._vocabulary = context.vocabulary
        self._tables = tables
        self._engines = engines
        self._n_terms = 0  # words left by the last sweep
        self._n_kept = 0  # messages left by the last sweep, without a window

    def sweep(self) -> None:
        """Forget words that nothing holds and, without a window, messages that no result holds."""
        if self._live.window is None:
            self._sweep_messages()
        if len(self._vocabulary) > 2 * self._n_terms + LEAST:
            self.sweep_words()

    def _sweep_messages(self) -> None:
        table = self._live.table
        n = len(table)
        if not n:
            self._n_kept = 0
            return
        anybody = len(self._tables[Kind.NEAREST]) > 0  # without a window only these keep messages
        if anybody and n <= 2 * self._n_kept + LEAST:
            return
        held = np.zeros(table.ids.keys.capacity, dtype=bool)
        if anybody:
            for engine in keeping(self._engines).values():
                engine.mark_messages(held)
        self._live.keep_only(held)
        self._n_kept = len(table)

    def sweep_words(self) -> None:
        used = np.zeros(self._vocabulary.capacity, dtype=bool)
        for holder in (self._live.table, *self._tables.values()):
            holder.mark_terms(used)
        self._vocabulary.patterns.mark_words(used)
        terms = self._vocabulary.keys.numbers()
        self._vocabulary.free(terms[~used[terms]])
        self._n_terms = len(self._vocabulary)

    def state(self) -> State:
        return {"terms": self._n_terms, "kept": self._n_kept}

    def load(self, state: State) -> None:
        self._n_terms, self._n_kept = state["terms"], state["kept"]
