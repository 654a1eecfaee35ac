"""Settings of an AP-Tree: the paper's parameters, and the variants that it compares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nearcast.errors import InvalidInput
from nearcast.model.checks import number, one_of, whole
from nearcast.model.message import Message

HEURISTIC, OPTIMAL, EVEN = "heuristic", "optimal", "even"
COST, KEYWORD_FIRST, SPACE_FIRST = "cost", "keyword", "space"
IN_LEAVES, IN_INDEX = "leaves", "index"
MOST_PARTS = 65535  # of a node, or entries of a leaf before it is cut
MOST_COPIES = 1000  # of an entry
MOST_VISIT = 1e6  # entries that coming to a node may cost

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
        Theta_KL: a node whose parts' weights diverge by more than this is built again; infinity never rebuilds.
    cuts
        How words become cuts: by local improvement ("heuristic"), by dynamic programming ("optimal"), or "even".
    priority
        What decides between words and space: the "cost", or always one of them first.
    messages
        Where moves and new subscriptions find live messages: filed with the "leaves", or in the window's "index".
    copies
        The bound on memory. A space node copies an entry into every cell that its box meets; in the leaves that one
        word leads to an entry has about this many copies on average at most, from 1 to 1,000. Fewer need less memory,
        and matching takes longer; more than the default save little.
    visit
        What it costs to come to a node or a leaf, in entries met there. A cut that saves fewer entries than that is
        not made. It depends on the machine: memory against comparisons.
    sample
        Messages like those to come, from which the cost model learns before any has arrived. A snapshot keeps what was
        learned, not the sample.
    """

    fanout: int = 200
    leaf: int = 40
    drift: float = 0.001
    cuts: str = HEURISTIC
    priority: str = COST
    messages: str = IN_LEAVES
    copies: float = 3.0
    visit: float = 100.0
    sample: Sequence[Message] = ()

    def __post_init__(self) -> None:
        whole("fanout", self.fanout, 4, MOST_PARTS)
        whole("leaf", self.leaf, 2, MOST_PARTS)
        if self.drift != math.inf and number("drift", self.drift) <= 0:
            raise InvalidInput("drift", self.drift, "must be > 0")
        if not 1 <= number("copies", self.copies) <= MOST_COPIES:
            raise InvalidInput("copies", self.copies, f"must be from 1 to {MOST_COPIES}")
        if not 0 <= number("visit", self.visit) <= MOST_VISIT:
            raise InvalidInput("visit", self.visit, f"must be from 0 to {MOST_VISIT}")
        object.__setattr__(self, "sample", _messages(self.sample))
        for field, choices in _CHOICES.items():
            one_of(field, getattr(self, field), choices)


def _messages(given: Sequence[Message]) -> tuple[Message, ...]:
    try:
        messages = tuple(given)
    except TypeError:
        raise InvalidInput("sample", given, "must be a list of messages") from None
    for message in messages:
        if not isinstance(message, Message):
            raise InvalidInput("sample", message, "must hold messages only")
    return messages
