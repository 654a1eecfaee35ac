"""Single messages that nobody keeps: one goes in, is matched where its text was encoded, and is never stored.

Without a window only `Nearest` keeps messages. While there is none of them, a message that comes alone needs no slot,
no row of words and no key for its id: `Passing` puts a table of this one message in the place of the stored ones until
all engines have seen it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.columns.arena import Array, Ints, Longs
from nearcast.columns.ids import IdColumn, Ids
from nearcast.columns.message_table import MESSAGE, ORDER, MessageLayout, MessageTable, measured
from nearcast.columns.times import FOREVER, MISSING
from nearcast.held import HeldCall, opened
from nearcast.jit import kernel
from nearcast.model.message import Message
from nearcast.text.known_text import encode_known
from nearcast.text.one_text import N_IN_ORDER, N_NEW, TextCall, encode_text
from nearcast.window.live import ADMITTED, ELSEWHERE, LiveMessages, Steps, arrive, one_step
from nearcast.window.window import Limits


class PassCall(NamedTuple):
    """The one message: what it says, and its row."""

    text: TextCall
    limits: Limits
    rows: Array  # MESSAGE[1]
    order_rows: Array  # ORDER[1]
    lasts: Longs  # int64[1]: out: newest sequence after it
    clocks: Longs  # int64[1]: out: clock after it


@kernel
def write_message(held: Any, x: float, y: float, ts: int, expires: int, last: int, clock: int, knows_all: bool) -> int:
    """Write the row of a message, of which all words matter or only those that have terms already.

    Returns how many words have no weight yet, or ELSEWHERE, with no row written, if it must be stored.
    """
    call = opened(held)
    arrival = arrive(ts, expires, call.limits, clock)
    if arrival.status != ADMITTED:
        return ELSEWHERE
    text, n_words, n_new = call.text, 0, 0
    if knows_all:
        n_terms = encode_text(text.table, text.keys, text.idf, text.room)
        n_words, n_new = text.room.counts[N_IN_ORDER], text.room.counts[N_NEW]
    else:
        n_terms = encode_known(text.table, text.keys, text.room)
    if n_terms < 0:
        return ELSEWHERE
    call.lasts[0], call.clocks[0] = last + 1, arrival.clock
    row, order = call.rows[0], call.order_rows[0]
    row.sequence, row.x, row.y, row.ts, row.expires_at = last + 1, x, y, arrival.ts, arrival.expires_at
    row.withdrawn_by, row.norm, row.weight, row.term_start, row.n_terms = FOREVER, 0.0, 0.0, 0, n_terms
    order.start, order.n = 0, n_words
    return n_new


class PassingId:
    """The id of the one message."""

    def __init__(self, stored: Ids) -> None:
        self._stored = stored
        self.value: str | int = 0

    @property
    def type(self) -> str | None:
        """The type of all ids."""
        return self._stored.type

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of the ids in Arrow."""
        return self._stored.arrow_type

    def column(self, slots: Ints) -> IdColumn:
        """The id, as often as there are slots."""
        if isinstance(self.value, int):
            return IdColumn(np.full(slots.size, self.value, np.int64), None)
        raw = self.value.encode()
        starts = np.arange(0, len(raw) * slots.size + 1, len(raw)) if raw else np.zeros(slots.size + 1, np.int64)
        return IdColumn(np.frombuffer(bytearray(raw * slots.size), np.uint8), starts)


class PassingTable(MessageTable):
    """A table of one message, whose words are where they were encoded."""

    def __init__(self, stored: MessageTable) -> None:
        super().__init__(stored.vocabulary, unique_ids=False)
        self.ids = PassingId(stored.ids)  # type: ignore[assignment]
        room = self.one_text.room
        self._rows, self._order_rows = np.zeros(1, MESSAGE), np.zeros(1, ORDER)
        self._words.pools = {"terms": room.terms, "counts": room.repeats}
        self._order.pools = {"order": room.in_order}
        self._held_layout = super().layout

    def __len__(self) -> int:
        return 1

    @property
    def layout(self) -> MessageLayout:
        return self._held_layout

    def call(self, limits: Limits, step: Steps) -> PassCall:
        """What a kernel writes the message with, whose text is held."""
        return PassCall(self.one_text.call, limits, self._rows, self._order_rows, step.lasts, step.clocks)

    def weigh(self) -> None:
        """Compute what scores need."""
        norms, weights = measured(self._rows, self._words, self.vocabulary.idf)
        self._rows["norm"], self._rows["weight"] = norms, weights


class Passing:
    """Lets single messages pass, of which `keepers` would keep some and which `scorers` weigh: subscriptions."""

    def __init__(
        self, live: LiveMessages, keepers: Sized, scorers: Sized, asked: Callable[[], frozenset[str] | None]
    ) -> None:
        self._live, self._stored = live, live.table
        self._keepers, self._scorers, self._asked = keepers, scorers, asked
        self._table = PassingTable(live.table)
        self._takes_any = live.window is None and live.vocabulary.analysis.analyzer.is_plain
        self._step = one_step()._replace(withdrawn=np.zeros(0, np.int32))
        self._write: HeldCall[PassCall] = HeldCall(write_message)

    def admit(self, message: Message) -> Steps | None:
        """Take in a message; None, and nothing has happened, if it must be stored.

        What is late is for `LiveMessages`, too, and what has no text, or fields that are asked for. `end` must follow,
        and the arrays of the step are written again by the next.
        """
        text, live = message.text, self._live
        if not self._takes_any or text is None or len(self._keepers) or (message.fields and self._asks(message.fields)):
            return None
        if self._stored.ids.type is None:
            return None
        table, step, weighs = self._table, self._step, len(self._scorers) > 0
        if not table.one_text.hold(text):
            return None
        ts, expires = MISSING if message.ts is None else message.ts, message.expires
        n_new = self._write(
            table.call(live.limits, step), message.lon, message.lat, ts, FOREVER if expires is None else expires,
            live.last, live.clock, weighs or len(live.vocabulary.patterns) > 0,
        )  # fmt: skip
        if n_new == ELSEWHERE:
            return None
        if n_new:
            table.one_text.weigh_new()
        if weighs:
            table.weigh()
        table.ids.value = message.id  # type: ignore[method-assign,assignment]
        live.last, live.clock, live.table = live.last + 1, int(step.clocks[0]), table
        return step

    def _asks(self, names: Iterable[str]) -> bool:
        """Does anybody ask for fields of these names?"""
        asked = self._asked()
        return asked is None or not asked.isdisjoint(names)

    def end(self) -> bool:
        """All engines have seen the message; False if none was passing."""
        passed = self._live.table is self._table
        self._live.table = self._stored
        return passed
