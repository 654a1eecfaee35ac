"""IQ+-Tree: IQ-Tree for subscriptions that move, with live messages in the cells that they penetrate."""

from __future__ import annotations

from bench.rivals.iq_tree import IQTree
from bench.rivals.moving import Moving


class IQPlus(Moving, IQTree):
    """Space first, both ways."""

    name = "iq_plus"
