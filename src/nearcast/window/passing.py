"""Single messages that nobody keeps: one goes in, is matched where its text was encoded, and is never stored.

Without a window only `Nearest` keeps messages. While there is none of them, a message that comes alone needs no slot,
no row of words and no key for its id: `Passing` puts a table of this one message in the place of the stored ones until
all engines have seen it.
"""

from __future__ import annotations

from collections.abc import Sized

import numpy as np
import pyarrow as pa

from nearcast.columns.arena import Ints
from nearcast.columns.ids import IdColumn, Ids
from nearcast.columns.message_table import MESSAGE, ORDER, MessageLayout, MessageTable, measured
from nearcast.columns.times import FOREVER, MISSING
from nearcast.model.message import Message
from nearcast.text.known_text import KnownText
from nearcast.window.live import ADMITTED, Arrival, LiveMessages, Steps, arrive, one_step


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
        self.text, self.ids = KnownText(stored.vocabulary), PassingId(stored.ids)  # type: ignore[assignment]
        room = self.text.room
        self._rows, self._order_rows = np.zeros(1, MESSAGE), np.zeros(1, ORDER)
        self._words.pools = {"terms": room.terms, "counts": room.repeats}
        self._order.pools = {"order": room.in_order}
        self._layout = super().layout

    def __len__(self) -> int:
        return 1

    @property
    def layout(self) -> MessageLayout:
        return self._layout

    def hold(self, message: Message, sequence: int, arrival: Arrival, n_words: int, n_terms: int) -> None:
        """Be the table of this message, whose text was just encoded."""
        self.ids.value = message.id  # type: ignore[method-assign,assignment]
        self._rows[0] = (
            sequence, message.lon, message.lat, arrival.ts, arrival.expires_at, FOREVER, 0.0, 0.0, 0, n_terms,
        )  # fmt: skip
        self._order_rows[0] = (0, n_words)

    def weigh(self) -> None:
        """Compute what scores need."""
        norms, weights = measured(self._rows, self._words, self.vocabulary.idf)
        self._rows["norm"], self._rows["weight"] = norms, weights


class Passing:
    """Lets single messages pass, of which `keepers` would keep some and which `scorers` weigh: subscriptions."""

    def __init__(self, live: LiveMessages, keepers: Sized, scorers: Sized) -> None:
        self._live, self._stored = live, live.table
        self._keepers, self._scorers = keepers, scorers
        self._table = PassingTable(live.table)
        self._takes_any = live.window is None and live.vocabulary.analysis.analyzer.is_plain
        self._step = one_step()._replace(withdrawn=np.zeros(0, np.int32))

    def admit(self, message: Message) -> Steps | None:
        """Take in a message; None, and nothing has happened, if it must be stored.

        What is late is for `LiveMessages`, too, and what has no text, or fields. `end` must follow, and the arrays of
        the step are written again by the next.
        """
        text, live = message.text, self._live
        if not self._takes_any or text is None or message.fields or len(self._keepers):
            return None
        if self._stored.ids.type is None:
            return None
        ts, expires = MISSING if message.ts is None else message.ts, message.expires
        arrival = arrive(ts, FOREVER if expires is None else expires, live.limits, live.clock)
        if arrival.status != ADMITTED:
            return None
        words, weighs = self._table.text, len(self._scorers) > 0
        counts = words.encode(text) if weighs or len(live.vocabulary.patterns) else words.encode_known(text)
        if counts is None:
            return None
        self._table.hold(message, live.last + 1, arrival, *counts)
        if weighs:
            self._table.weigh()
        live.last, live.clock, live.table = live.last + 1, arrival.clock, self._table
        step = self._step
        step.lasts[0], step.clocks[0] = live.last, live.clock
        return step

    def end(self) -> bool:
        """All engines have seen the message; False if none was passing."""
        passed = self._live.table is self._table
        self._live.table = self._stored
        return passed
