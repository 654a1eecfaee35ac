"""`LiveReader`: the live messages for one of several threads that ask at the same time; nobody writes meanwhile."""

from __future__ import annotations

from nearcast.columns.message_table import MessageTable
from nearcast.window.index.index import MessageIndex
from nearcast.window.live import LiveMessages
from nearcast.window.window import Limits, Window


class LiveReader:
    """What engines ask of the live messages: all as it is, but for an index with scratch of the reader's own."""

    def __init__(self, live: LiveMessages) -> None:
        self._live = live
        self._index = MessageIndex(live.index.space)
        self.window: Window | None = live.window
        self.limits: Limits = live.limits

    @property
    def table(self) -> MessageTable:
        """The messages, or the one that passes."""
        return self._live.table

    @property
    def last(self) -> int:
        """The sequence of the latest message."""
        return self._live.last

    @property
    def clock(self) -> int:
        """The time that it is."""
        return self._live.clock

    @property
    def withdraws(self) -> bool:
        """Has a message been updated or retracted?"""
        return self._live.withdraws

    @property
    def index(self) -> MessageIndex:
        """The index as it is now."""
        self._index.follow(self._live.index)
        return self._index

    def credit(self) -> None:
        """Add the work of this reader to that of the index."""
        self._live.index.credit(self._index)
