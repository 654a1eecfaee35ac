"""RQ+-Tree: RQ-Tree for subscriptions that move, with live messages in the cells that they penetrate."""

from __future__ import annotations

from bench.rivals.moving import Moving
from bench.rivals.quadtree import count_live
from bench.rivals.rq_tree import RQTree
from nearcast.columns.arena import Ints


class RQPlus(Moving, RQTree):
    """Words first, both ways. A list is long by its messages too: a move has to look at them."""

    name = "rq_plus"

    def _learn(self, slots: Ints) -> None:
        super()._learn(slots)
        self._lengths += count_live(self.context.live.table.layout, self._lengths.size)
