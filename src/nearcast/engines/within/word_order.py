"""Orders words by rank, rarest first, and makes entries whose words are in that order."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Ints, State, with_room
from nearcast.columns.subscription_tables import WithinTable
from nearcast.engines.within.build.recent_messages import RecentMessages
from nearcast.engines.within.entries import count_terms, make_entries, n_clauses, rank_words
from nearcast.engines.within.layout import ENTRY, UNRANKED


class WordOrder:
    """Ranks of the words that subscriptions ask for, by term.

    Paper: [APTREE] section 5.1.1 puts frequent words first.
    Departs: rare words first, so that few messages get past the first node.
    """

    def __init__(self) -> None:
        self.ranks = np.zeros(0, dtype=np.int32)  # int32[n_terms], UNRANKED where no subscription asks for a word
        self.lowest = 0  # the lowest rank in use
        self._n_first = 0  # the highest were given at the start

    @classmethod
    def of(cls, table: WithinTable, recent: RecentMessages, n_terms: int) -> WordOrder:
        """Rank first the words that few recent messages hold, then those that few subscriptions ask for."""
        order = cls()
        order.ensure_terms(n_terms)
        counts = np.zeros(order.ranks.size, dtype=np.int64)
        count_terms(table.layout, table.used_slots, counts)
        asked = np.flatnonzero(counts)
        hits = recent.hits(order.ranks.size)
        ranked = np.lexsort((asked, counts[asked], hits[asked]))
        order.ranks[asked[ranked]] = np.arange(asked.size, dtype=np.int32)
        order._n_first = asked.size
        return order

    @property
    def n_ranks(self) -> int:
        """How many ranks are in use."""
        return self._n_first - self.lowest

    def ensure_terms(self, n_terms: int) -> None:
        """Make room for this many terms."""
        known = self.ranks.size
        if n_terms > known:
            self.ranks = with_room(self.ranks, n_terms)
            self.ranks[known:] = UNRANKED

    def unrank(self, terms: Ints) -> None:
        """Take the ranks from terms; what asks for them next gets the rarest."""
        self.ranks[terms[terms < self.ranks.size]] = UNRANKED

    def entries(self, table: WithinTable, rows: Array, slots: Ints) -> Array:
        """Entries of subscriptions whose rows are, or were, these; a word without a rank becomes the rarest."""
        layout = table.layout
        self.lowest = rank_words(rows, layout.clauses, self.ranks, self.lowest)
        entries = np.zeros(n_clauses(rows, layout.clauses), dtype=ENTRY)
        make_entries(rows, slots, layout, self.ranks, entries)
        return entries

    def state(self) -> State:
        return {"ranks": self.ranks, "lowest": self.lowest, "first": self._n_first}

    def load(self, state: State) -> None:
        self.ranks, self.lowest, self._n_first = state["ranks"], int(state["lowest"]), int(state["first"])
