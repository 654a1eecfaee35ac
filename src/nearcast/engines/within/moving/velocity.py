"""Averages how far each subscription moves at a time, and how often: what the cost of movement needs.

Time is counted in epochs, the paper's timestamps: as many events as there are subscriptions. No clock is read.

Paper: [APTREE] section 4.3.1.
"""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Ints, State
from nearcast.engines.within.moving.move_cost import Pace
from nearcast.engines.within.settings import ApTreeSettings

_LEAST_EVENTS = 1000  # of an epoch
_MAX_EPOCHS = 32  # how far ahead costs look (T_max)
_FARTHEST = 1e30  # a move, so that float32 can hold what is computed from it
_LISTED = 3.0  # what it costs to compare a listed message with a region, in entries met (a row of 16 bytes, not 5)
_WEIGHT = 0.5  # of the last move, and of the last epoch, in their averages


class Velocities:
    """Displacements by slot, and how many messages and moves an epoch has."""

    def __init__(self) -> None:
        self.displacements = np.zeros(
            (0, 2), dtype=np.float32
        )  # [n_slots]: mean dx, dy of a move; none before the first
        self._n_moving = 0  # slots with a displacement
        self._messages = self._moves = 0.0  # in an epoch, on average
        self._n_messages = self._n_moves = 0  # in this epoch so far

    def observe_moves(self, slots: Ints, before: Array, after: Array, n_slots: int) -> None:
        """Average the moves of subscriptions from one box to another."""
        if n_slots > len(self.displacements):
            grown = np.zeros((max(n_slots, 2 * len(self.displacements)), 2), dtype=np.float32)
            grown[: len(self.displacements)] = self.displacements
            self.displacements = grown
        self._n_moving -= self._count(slots)
        for axis, (low, high) in enumerate((("x0", "x1"), ("y0", "y1"))):
            with np.errstate(invalid="ignore", over="ignore"):
                displacement = 0.5 * (after[low] - before[low]) + 0.5 * (after[high] - before[high])
                displacement = np.where(np.isfinite(displacement), displacement, 0.0)
            displacement = np.clip(displacement, -_FARTHEST, _FARTHEST).astype(np.float32)
            self.displacements[slots, axis] += np.float32(_WEIGHT) * (displacement - self.displacements[slots, axis])
        self._n_moving += self._count(slots)

    def _count(self, slots: Ints) -> int:
        return int(self.displacements[slots].any(axis=1).sum())

    def forget(self, slots: Ints) -> None:
        """Forget subscriptions that are removed."""
        known = slots[slots < len(self.displacements)]
        self._n_moving -= self._count(known)
        self.displacements[known] = 0.0

    def observe(self, n_messages: int, n_moves: int, n_subscriptions: int) -> None:
        """Count events; at the end of an epoch they enter the averages."""
        self._n_messages += n_messages
        self._n_moves += n_moves
        n_epochs = (self._n_messages + self._n_moves) / max(_LEAST_EVENTS, n_subscriptions)
        if n_epochs >= 1.0:
            self._messages += _WEIGHT * (self._n_messages / n_epochs - self._messages)
            self._moves += _WEIGHT * (self._n_moves / n_epochs - self._moves)
            self._n_messages = self._n_moves = 0

    @property
    def messages(self) -> float:
        """Messages that arrive in an epoch."""
        return max(1.0, self._messages or float(self._n_messages))

    @property
    def is_moving(self) -> bool:
        """Does any subscription move?"""
        return self._n_moving > 0

    def list_weight(self, n_live: int, n_subscriptions: int) -> float:
        """What an entry in a leaf costs because it moves and then compares the list there, in entries met by messages.

        As many messages are in the list as live messages reach the leaf; per message that comes, this is how often
        one subscription moves while a window of messages passes.

        Paper: [APTREE] section 4.3.1 leaves this out: only the subscriptions of a leaf are counted.
        """
        moves = (self._moves or float(self._n_moves)) / max(1, n_subscriptions)
        return _LISTED * moves * n_live / self.messages

    def pace(self, settings: ApTreeSettings) -> Pace:
        """What the costs of movement depend on besides the node."""
        n_moves = self._moves or float(self._n_moves)
        update_epochs = max(1, self._n_moving) / max(1.0, n_moves)
        return Pace(settings.fanout, float(settings.leaf), float(settings.drift), update_epochs, _MAX_EPOCHS)

    @property
    def nbytes(self) -> int:
        return self.displacements.nbytes

    def state(self) -> State:
        counts = self._messages, self._moves, self._n_messages, self._n_moves, self._n_moving
        return {"steps": self.displacements, "counts": np.array(counts, dtype=np.float64)}

    def load(self, state: State) -> None:
        self.displacements = state["steps"]
        self._messages, self._moves = (float(count) for count in state["counts"][:2])
        self._n_messages, self._n_moves, self._n_moving = (int(count) for count in state["counts"][2:])
