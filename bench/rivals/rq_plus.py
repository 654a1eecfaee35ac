"""RQ+-Tree: RQ-Tree for subscriptions that move, with live messages in the cells that they penetrate."""

from __future__ import annotations

from bench.rivals.moving import Moving
from bench.rivals.rq_tree import RQTree


class RQPlus(Moving, RQTree):
    """Words first, both ways."""

    name = "rq_plus"
