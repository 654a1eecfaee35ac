"""Subscribers that move and are told of each matching message once: who has to talk to whom, and how often.

With AP+-Tree a subscriber reports every move, and the tree knows the circle where it is. With safe regions it reports
only when it leaves a region in which nothing new can come into its circle.

Paper: [APTREE] section 5.2.3, comparison with Elaps, and its footnote 17: the safe region is a circle around the place
that was reported last, as large as the way to the nearest matching message less the radius of the subscription; the
impact region is as much larger as that radius, and the tree has the impact region. An arrival in there asks the
subscriber where it is.
Departs: looks for the nearest message up to `REACH` times the radius only, so that safe regions are no larger.
Elaps itself, with regions made of cells and a BEQ-tree of messages, is not described there and not built.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints
from nearcast.columns.regions import CIRCLE, RegionRows
from nearcast.columns.subscription_tables import WithinTable
from nearcast.engines.contract import EngineContext
from nearcast.jit import kernel
from nearcast.space.distance import distance
from nearcast.space.regions import circle_box
from nearcast.window.live import Steps

REACH = 8.0  # times the radius of a subscription
_EDGE = 1.0 - 1e-9  # what is left of a safe region for the rounding of distances


@kernel
def fill_distances(metric, ones, others, out):
    """Write the distance of each pair of places."""
    for i in range(out.size):
        out[i] = distance(metric, ones[i, 0], ones[i, 1], others[i, 0], others[i, 1])


@kernel
def fill_boxes(metric, places, radii, out):
    """Write a box around each circle."""
    for i in range(radii.size):
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = circle_box(metric, places[i, 0], places[i, 1], radii[i])


def circle_rows(metric: int, places: Floats, radii: Floats) -> RegionRows:
    """Circles as the table takes them."""
    n = radii.size
    boxes = np.empty((n, 4))
    fill_boxes(metric, places, radii, boxes)
    points = np.stack([places, np.stack([radii, np.zeros(n)], axis=1)], axis=1).reshape(-1, 2)
    rings = np.stack([2 * np.arange(n), 2 * np.arange(n) + 2], axis=1).ravel()
    two = np.full(n, 2, np.int64)
    return RegionRows(boxes, np.full(n, CIRCLE, np.int32), points, rings, two, two)


class EveryMove:
    """A subscriber reports every move.

    Parameters
    ----------
    engine
        An AP+-Tree, which has all subscriptions of the table as circles.
    places, radii
        Of each slot.
    """

    def __init__(self, engine: Any, table: WithinTable, context: EngineContext, places: Floats, radii: Floats) -> None:
        self._engine = engine
        self._table = table
        self._context = context
        self._metric = context.space.metric_code
        self.places = places  # which only subscribers know
        self.radii = radii
        self.told: set[tuple[int, int]] = set()  # subscription, and sequence of a message
        self.n_sent = 0  # messages between subscribers and the server, either way

    def begin(self) -> None:
        """Tell every subscriber what is there already."""
        found = self._engine.fill(self._table.used_slots)
        self._tell(found.slots, found.messages)
        self.n_sent = 0

    def reporting(self, slots: Ints, places: Floats) -> Ints:
        """Subscribers move; returns those who will report it."""
        self.places[slots] = places
        return slots

    def hear(self, slots: Ints) -> None:
        """The server hears where these subscribers are."""
        self.n_sent += slots.size
        changes = self._file(slots, self.radii[slots])
        enters = changes.signs > 0
        self._tell(changes.slots[enters], changes.messages[enters])

    def arrive(self, steps: Steps) -> None:
        """Messages arrive at the server."""
        changes = self._engine.publish(steps)
        self._tell(changes.slots, changes.messages)

    def _file(self, slots: Ints, radii: Floats) -> Any:
        """File circles around the places where these subscribers are."""
        with self._table.moving(slots, circle_rows(self._metric, self.places[slots], radii)) as before:
            return self._engine.move(slots, before)

    def _tell(self, slots: Ints, messages: Ints) -> None:
        sequences = self._context.live.table.layout.rows["sequence"][messages]
        new = set(zip(slots.tolist(), sequences.tolist(), strict=True)) - self.told
        self.told |= new
        self.n_sent += len(new)

    def _distances(self, ones: Floats, others: Floats) -> Floats:
        out = np.empty(len(ones))
        fill_distances(self._metric, ones, others, out)
        return out

    def restore(self, slots: Ints) -> None:
        """Put back what the table had of these subscriptions, for who borrowed their rows."""
        with self._table.moving(slots, circle_rows(self._metric, self.places[slots], self.radii[slots])):
            pass


class SafeRegions(EveryMove):
    """A subscriber reports when it leaves its safe region, or is asked."""

    def __init__(self, engine: Any, table: WithinTable, context: EngineContext, places: Floats, radii: Floats) -> None:
        super().__init__(engine, table, context, places, radii)
        self._reported = places.copy()
        self._safe = np.zeros(radii.size)

    def begin(self) -> None:
        self.hear(self._table.used_slots)
        self.n_sent = 0

    def reporting(self, slots: Ints, places: Floats) -> Ints:
        super().reporting(slots, places)
        return slots[self._distances(places, self._reported[slots]) > self._safe[slots]]

    def hear(self, slots: Ints) -> None:
        self.n_sent += 2 * slots.size  # where they are, and how far they may go now
        slots = np.sort(slots)
        radii, reach = self.radii[slots], REACH * self.radii[slots]
        self._file(slots, reach)
        found = self._engine.fill(slots)
        whose = np.searchsorted(slots, found.slots)
        away = self._distances(self.places[found.slots], self._places_of(found.messages))
        inside = away <= radii[whose]
        self._tell(found.slots[inside], found.messages[inside])
        np.minimum.at(reach, whose[~inside], away[~inside])
        self._reported[slots] = self.places[slots]
        self._safe[slots] = (reach - radii) * _EDGE
        self._file(slots, reach)

    def arrive(self, steps: Steps) -> None:
        changes = self._engine.publish(steps)
        asked = np.unique(changes.slots)
        away = self._distances(self.places[changes.slots], self._places_of(changes.messages))
        inside = away <= self.radii[changes.slots]
        self.n_sent += asked.size
        self._tell(changes.slots[inside], changes.messages[inside])
        if asked.size:
            self.hear(asked)

    def restore(self, slots: Ints) -> None:
        impact = self.radii[slots] + self._safe[slots] / _EDGE
        with self._table.moving(slots, circle_rows(self._metric, self._reported[slots], impact)):
            pass

    def _places_of(self, messages: Ints) -> Array:
        rows = self._context.live.table.layout.rows
        return np.stack([rows["x"][messages], rows["y"][messages]], axis=1)
