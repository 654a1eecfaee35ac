"""How an AP-Tree is built and kept: the paper's parameters, and the variants that it compares."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nearcast.errors import InvalidInput
from nearcast.model.checks import number, one_of, whole

HEURISTIC, OPTIMAL, EVEN = "heuristic", "optimal", "even"
COST, KEYWORD_FIRST, SPACE_FIRST = "cost", "keyword", "space"
IN_LEAVES, IN_INDEX = "leaves", "index"
MOST_PARTS = 65535  # of a node, or entries of a leaf before it is cut

_CHOICES = {
    "cuts": (HEURISTIC, OPTIMAL, EVEN),
    "priority": (COST, KEYWORD_FIRST, SPACE_FIRST),
    "messages": (IN_LEAVES, IN_INDEX),
}


@dataclass(frozen=True, slots=True)
class ApTreeSettings:
    """Parameters of the tree.

    Parameters
    ----------
    fanout
        f: most cuts or cells of a node.
    leaf
        Theta_p: a list of more subscriptions than this is partitioned.
    drift
        Theta_KL: a node whose parts' weights diverge by more than this is built anew; infinity never rebuilds.
    cuts
        How words become cuts: by local improvement ("heuristic"), by dynamic programming ("optimal"), or "even".
    priority
        What decides between words and space: the "cost", or always one of them first.
    messages
        Where moves and new subscriptions find live messages: filed with the "leaves", or in the window's "index".
    """

    fanout: int = 200
    leaf: int = 40
    drift: float = 0.001
    cuts: str = HEURISTIC
    priority: str = COST
    messages: str = IN_LEAVES

    def __post_init__(self) -> None:
        whole("fanout", self.fanout, 4, MOST_PARTS)
        whole("leaf", self.leaf, 2, MOST_PARTS)
        if self.drift != math.inf and number("drift", self.drift) <= 0:
            raise InvalidInput("drift", self.drift, "must be > 0")
        for field, choices in _CHOICES.items():
            one_of(field, getattr(self, field), choices)
