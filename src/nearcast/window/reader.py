"""`LiveReader`: the live messages for one of several threads that ask at the same time; nobody writes meanwhile."""

from __future__ import annotations

from typing import Any

from nearcast.window.index.index import MessageIndex
from nearcast.window.live import LiveMessages


class LiveReader:
    """The live messages as they are, but for the scratch of the index, of which every reader has its own."""

    def __init__(self, live: LiveMessages) -> None:
        self._live = live
        self._index = MessageIndex(live.index.space)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._live, name)

    @property
    def index(self) -> MessageIndex:
        """The index as it is now."""
        self._index.follow(self._live.index)
        return self._index

    def credit(self) -> None:
        """Add the work of this reader to that of the index."""
        self._live.index.credit(self._index)
