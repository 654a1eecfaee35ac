"""The Python side of `leaf_messages`: `LeafLists` owns the scratch, grows arrays, and spreads the upkeep over calls."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Ints
from nearcast.engines.contract import EngineContext
from nearcast.engines.within.arrays import TreeArrays
from nearcast.engines.within.descend import NEED_FRONTIER, DescentInput, grown_frontier, new_frontier, with_terms
from nearcast.engines.within.layout import (
    CATCH_UP,
    CURSOR,
    LISTED_ROWS,
    N_LEAVES,
    NOTHING,
    ROOT,
    SWEEP,
    SWEPT,
    UP_TO,
)
from nearcast.engines.within.match import MatchRoom
from nearcast.engines.within.moving.leaf_messages import (
    MARK,
    LiveBounds,
    VisitCall,
    catch_up,
    choose_live,
    list_below,
    list_visits,
    sweep_lists,
)
from nearcast.engines.within.word_order import WordOrder
from nearcast.held import HeldCall
from nearcast.jit import NEED_ROOM
from nearcast.window.live import Steps

LEAST_ROWS = 4096  # lists of fewer messages together are not swept
SWEPT_PER_EVENT = 64  # listed messages that are looked at for every event of a call, while sweeping
SENT_PER_EVENT = 64  # messages that go down the tree for every event of a call, while catching up
_SENT_FOR_ONE = 64  # messages that go down the tree in the time of one question to the message index


class LeafLists:
    """The live messages in the leaves of one tree."""

    def __init__(self, context: EngineContext) -> None:
        self.context = context
        self.n_caught_up = 0
        self._n_misses = 0  # questions that lists could not answer since catching up began last
        self._frontier = new_frontier()
        self._list_visits: HeldCall[VisitCall] = HeldCall(list_visits)
        self._oldest = 1
        self._known_at = -1  # `_n_changes` when the oldest message was last looked for
        self._n_changes = 0  # arrivals and expiries

    @property
    def live_bounds(self) -> LiveBounds:
        """Which messages are live now."""
        live = self.context.live
        return LiveBounds(live.last, live.clock, live.limits.newest)

    def add_visits(self, arrays: TreeArrays, room: MatchRoom, n_visits: int) -> None:
        """List messages with the leaves that they reached: the first `n_visits` of the room's visits."""
        rows, metric = self.context.live.table.rows, self.context.space.metric_code
        done, bounds = 0, self.live_bounds
        while done < n_visits:
            call = VisitCall(arrays.layout, room.visitors, room.visits, rows, metric)
            done = self._list_visits(call, done, n_visits, *bounds)
            if done < n_visits:
                _make_room(arrays)

    def messages_in(self, arrays: TreeArrays, leaf: int) -> tuple[Ints, int]:
        """The messages in the list of a leaf that is to be split, and when it was caught up."""
        row = arrays.layout.leaves[leaf]
        listed = arrays.layout.listed[row["message_start"] : row["message_start"] + row["n_messages"]]
        slots = listed["slot"].copy()
        rows = self.context.live.table.layout.rows
        return slots[rows["sequence"][slots] & MARK == listed["mark"]], int(row["caught_up"])

    def list_below(self, arrays: TreeArrays, order: WordOrder, part: int, slots: Ints, caught_up: int = 0) -> None:
        """List messages that reached a part with the leaves that are below it now."""
        descent, done = self._descent(slots, order), 0
        while done < slots.size:
            done, code = list_below(arrays.layout, descent, done, part, self.live_bounds, self._frontier, caught_up)
            self._grow(arrays, code)

    def list_all(self, arrays: TreeArrays, order: WordOrder) -> None:
        """List every live message with the leaves of a new tree."""
        self.list_below(arrays, order, ROOT, self.context.live.table.live_slots)

    def _descent(self, slots: Ints, order: WordOrder) -> DescentInput:
        order.ensure_terms(self.context.vocabulary.capacity)
        self._frontier = with_terms(self._frontier, order.ranks.size)
        table = self.context.live.table
        messages, own = table.with_patterns(slots)
        return DescentInput(own, messages, order.ranks, self.context.space.metric_code, slots, table.layout.rows)

    def _grow(self, arrays: TreeArrays, code: int) -> None:
        if code == NEED_FRONTIER:
            self._frontier = grown_frontier(self._frontier)
        elif code == NEED_ROOM:
            _make_room(arrays)

    # Upkeep

    def count_misses(self, n: int) -> None:
        """Lists could not answer `n` questions."""
        self._n_misses += n

    def maintain(self, arrays: TreeArrays, order: WordOrder, n_events: int) -> None:
        """Do some upkeep after a call of `n_events` events: sweep lists, catch up."""
        heads = arrays.layout.heads
        if heads[SWEEP] == NOTHING and heads[LISTED_ROWS] > max(LEAST_ROWS, 2 * heads[SWEPT]):
            heads[SWEEP] = 0
        if heads[SWEEP] != NOTHING:
            rows = self.context.live.table.layout.rows
            leaf = sweep_lists(arrays.layout, heads[SWEEP], SWEPT_PER_EVENT * n_events, rows, self.live_bounds)
            heads[SWEEP] = leaf if leaf < heads[N_LEAVES] else NOTHING
        due = self._n_misses * _SENT_FOR_ONE > len(self.context.live.table)
        if due and heads[CURSOR] == NOTHING:
            self._n_misses = 0
            heads[CURSOR], heads[UP_TO] = 0, self.context.live.last
            heads[CATCH_UP] += 1
        if heads[CURSOR] != NOTHING:
            self._catch_up(arrays, order, SENT_PER_EVENT * n_events)

    def finish_catch_up(self, arrays: TreeArrays, order: WordOrder, n: int) -> None:
        """Before `n` questions: finish catching up if that takes less than asking the message index would."""
        left = self.context.live.table.layout.rows.size - int(arrays.layout.heads[CURSOR])
        if arrays.layout.heads[CURSOR] != NOTHING and _SENT_FOR_ONE * n > left:
            self._catch_up(arrays, order, left)

    def _catch_up(self, arrays: TreeArrays, order: WordOrder, n: int) -> None:
        messages, heads = self.context.live.table.layout, arrays.layout.heads
        first = int(heads[CURSOR])
        end = min(first + n, messages.rows.size)
        slots = np.zeros(end - first, np.int32)
        choose_live(arrays.layout, messages.rows, first, self.live_bounds, slots)
        descent, done = self._descent(slots, order), 0
        while done < slots.size:
            done, code = catch_up(arrays.layout, descent, done, self.live_bounds, self._frontier)
            self._grow(arrays, code)
        heads[CURSOR] = end
        if end == messages.rows.size:
            heads[CURSOR] = NOTHING
            self.n_caught_up += 1
            for sinces in (arrays.layout.nodes["since"], arrays.layout.leaves["since"]):
                sinces[sinces <= heads[UP_TO]] = 0

    # The oldest live message

    def observe(self, steps: Steps) -> None:
        """Count messages that arrived and expired."""
        self._n_changes += steps.arrivals.size + steps.expired.size

    @property
    def oldest(self) -> int:
        """No live message has a smaller sequence; looked for again when a quarter of them may have changed."""
        live = self.context.live
        n = len(live.table)
        if n == 0:
            return live.last + 1
        if self._known_at < 0 or 4 * (self._n_changes - self._known_at) > n:
            sequences = live.table.layout.rows["sequence"]
            self._oldest = int(np.min(sequences, where=sequences > 0, initial=live.last + 1))
            self._known_at = self._n_changes
        return max(self._oldest, live.last - live.limits.newest + 1)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._frontier)


def _make_room(arrays: TreeArrays) -> None:
    """Room for any list to grow by a size class."""
    arrays.make_room(listed=max(4096, 2 * int(arrays.layout.heads[LISTED_ROWS])))
