"""Python's side of the messages in leaves: owns the scratch, grows what a kernel asks for, and spreads the upkeep."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Ints
from nearcast.engines.contract import EngineContext
from nearcast.engines.within.arrays import TreeArrays
from nearcast.engines.within.descend import Sent, new_wave, wider, with_terms
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
from nearcast.engines.within.match import Match
from nearcast.engines.within.moving.leaf_messages import (
    MARK,
    NEED_WAVE,
    catch_up,
    choose_live,
    hand_down,
    list_visits,
    sweep,
)
from nearcast.engines.within.word_order import WordOrder
from nearcast.jit import NEED_ROOM
from nearcast.window.live import Steps

_LEAST_ROWS = 4096  # fewer in all lists are not swept
_SWEPT_PER_EVENT = 64  # messages in lists looked at for every event of a call, while sweeping
_SENT_PER_EVENT = 64  # messages sent through the tree for every event of a call, while catching up
_SENT_FOR_ONE = 64  # as many as a question to the message index costs


class Lists:
    """The live messages in the leaves of one tree."""

    def __init__(self, context: EngineContext) -> None:
        self.context = context
        self.n_caught_up = 0
        self._missed = 0  # questions that lists could not answer since catching up began last
        self._wave = new_wave()
        self._oldest = 1
        self._known_at = -1  # arrivals and expiries when the oldest message was last looked for
        self._n_changes = 0

    @property
    def now(self) -> tuple[int, int, int]:
        live = self.context.live
        return live.last, live.clock, live.limits.newest

    def add(self, arrays: TreeArrays, room: Match, n_visits: int) -> None:
        """Messages came to the leaves that the first `n_visits` of the room's visits tell."""
        rows, metric = self.context.live.table.layout.rows, self.context.space.metric_code
        done = 0
        while done < n_visits:
            done = list_visits(arrays.layout, room, done, n_visits, rows, metric, self.now)
            if done < n_visits:
                _make_room(arrays)

    def take(self, arrays: TreeArrays, leaf: int) -> tuple[Ints, int]:
        """The messages in the list of a leaf that is to be split, and when it was caught up."""
        row = arrays.layout.leaves[leaf]
        listed = arrays.layout.listed[row["message_start"] : row["message_start"] + row["n_messages"]]
        slots = listed["slot"].copy()
        rows = self.context.live.table.layout.rows
        return slots[rows["sequence"][slots] & MARK == listed["mark"]], int(row["caught_up"])

    def hand_down(self, arrays: TreeArrays, order: WordOrder, part: int, slots: Ints, caught_up: int = 0) -> None:
        """Messages that came to a part belong to the leaves below it from now on."""
        sent, done = self._send(slots, order), 0
        while done < slots.size:
            done, code = hand_down(arrays.layout, sent, done, part, self.now, self._wave, caught_up)
            self._grow(arrays, code)

    def list_all(self, arrays: TreeArrays, order: WordOrder) -> None:
        """Every live message comes to a new tree."""
        self.hand_down(arrays, order, ROOT, self.context.live.table.live_slots)

    def _send(self, slots: Ints, order: WordOrder) -> Sent:
        order.ensure_terms(self.context.vocabulary.capacity)
        self._wave = with_terms(self._wave, order.ranks.size)
        return Sent(slots, self.context.live.table.layout, order.ranks, self.context.space.metric_code)

    def _grow(self, arrays: TreeArrays, code: int) -> None:
        if code == NEED_WAVE:
            self._wave = wider(self._wave)
        elif code == NEED_ROOM:
            _make_room(arrays)

    # Upkeep

    def missed(self, n: int) -> None:
        """Lists could not answer so many questions."""
        self._missed += n

    def keep(self, arrays: TreeArrays, order: WordOrder, n_events: int) -> None:
        """Some upkeep after a call of so many events."""
        heads = arrays.layout.heads
        if heads[SWEEP] == NOTHING and heads[LISTED_ROWS] > max(_LEAST_ROWS, 2 * heads[SWEPT]):
            heads[SWEEP] = 0
        if heads[SWEEP] != NOTHING:
            rows = self.context.live.table.layout.rows
            leaf = sweep(arrays.layout, heads[SWEEP], _SWEPT_PER_EVENT * n_events, rows, self.now)
            heads[SWEEP] = leaf if leaf < heads[N_LEAVES] else NOTHING
        due = self._missed * _SENT_FOR_ONE > len(self.context.live.table)
        if due and heads[CURSOR] == NOTHING:
            self._missed = 0
            heads[CURSOR], heads[UP_TO] = 0, self.context.live.last
            heads[CATCH_UP] += 1
        if heads[CURSOR] != NOTHING:
            self._catch_up(arrays, order, _SENT_PER_EVENT * n_events)

    def hurry(self, arrays: TreeArrays, order: WordOrder, n: int) -> None:
        """So many questions come: end catching up first if that takes less than the message index would."""
        left = self.context.live.table.layout.rows.size - int(arrays.layout.heads[CURSOR])
        if arrays.layout.heads[CURSOR] != NOTHING and _SENT_FOR_ONE * n > left:
            self._catch_up(arrays, order, left)

    def _catch_up(self, arrays: TreeArrays, order: WordOrder, n: int) -> None:
        messages, heads = self.context.live.table.layout, arrays.layout.heads
        first = int(heads[CURSOR])
        end = min(first + n, messages.rows.size)
        slots = np.zeros(end - first, np.int32)
        choose_live(arrays.layout, messages.rows, first, self.now, slots)
        sent, done = self._send(slots, order), 0
        while done < slots.size:
            done, code = catch_up(arrays.layout, sent, done, self.now, self._wave)
            self._grow(arrays, code)
        heads[CURSOR] = end
        if end == messages.rows.size:
            heads[CURSOR] = NOTHING
            self.n_caught_up += 1
            for sinces in (arrays.layout.nodes["since"], arrays.layout.leaves["since"]):
                sinces[sinces <= heads[UP_TO]] = 0

    # The oldest live message

    def passed(self, steps: Steps) -> None:
        """Messages came and went."""
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
        return sum(array.nbytes for array in self._wave)


def _make_room(arrays: TreeArrays) -> None:
    """Room for any list to grow by a size class."""
    arrays.make_room(listed=max(4096, 2 * int(arrays.layout.heads[LISTED_ROWS])))
