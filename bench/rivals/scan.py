"""Every message against every subscription: boxes in flat arrays first, then the words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bench.rivals.base import Rival
from bench.rivals.clauses import first_clause, round_down, round_up
from bench.rivals.match import MATCHED, TOUCHED, VERIFIED, Work, mark, satisfied
from nearcast.columns.arena import Array, Ints, with_room
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.regions import CIRCLE
from nearcast.columns.subscription_tables import WithinTable, in_region
from nearcast.engines.contract import EngineContext
from nearcast.jit import kernel
from nearcast.space.distance import EUCLIDEAN
from nearcast.window.live import Steps

_BLOCK = 4096  # boxes that are compared before the words of those that fit are looked at


class Flat(NamedTuple):
    """Boxes by slot, rounded outward; empty where there is no subscription."""

    x0: Array  # float32[n_slots]
    y0: Array
    x1: Array
    y1: Array
    fitting: Ints  # int32[_BLOCK]: scratch


@kernel
def flatten(rows, slots, metric, flat):
    """Write the boxes of these rows."""
    for i in range(slots.size):
        row, slot = rows[i], slots[i]
        x0, x1 = row.x0, row.x1
        if x0 > x1 or (row.region_kind == CIRCLE and metric != EUCLIDEAN):
            x0, x1 = -np.inf, np.inf
        flat.x0[slot], flat.y0[slot] = round_down(x0), round_down(row.y0)
        flat.x1[slot], flat.y1[slot] = round_up(x1), round_up(row.y1)


@kernel
def fit_block(flat, first, last, x, y):
    """Write the slots of the boxes in [first, last) that hold the place; returns how many. No branch, so it is fast."""
    n = 0
    for i in range(first, last):
        flat.fitting[n] = i
        n += (flat.x0[i] <= x) & (x <= flat.x1[i]) & (flat.y0[i] <= y) & (y <= flat.y1[i])
    return n


@kernel
def scan_many(steps, first, messages, subscriptions, metric, flat, work):
    """As `match_many`, looking at all."""
    n = 0
    n_slots, counters = subscriptions.rows.size, work.counters
    for event in range(first, steps.arrivals.size):
        if steps.arrivals[event] < 0:
            continue
        if n + n_slots > work.slots.size:
            return event, n
        n_before = n
        message = messages.rows[steps.arrivals[event]]
        x, y = message.x, message.y
        mark(messages, message, 1, work.present)
        for start in range(0, n_slots, _BLOCK):
            n_fitting = fit_block(flat, start, min(start + _BLOCK, n_slots), x, y)
            counters[VERIFIED] += n_fitting
            for i in range(n_fitting):
                slot = flat.fitting[i]
                row = subscriptions.rows[slot]
                if row.expires <= steps.clocks[event]:
                    continue
                if first_clause(subscriptions.clauses, row.clause_start, row.clause_size, work.present) < 0:
                    continue
                if not satisfied(subscriptions, slot, messages.fields, steps.arrivals[event]):
                    continue
                if in_region(subscriptions, slot, metric, x, y):
                    work.events[n], work.slots[n] = event, slot
                    n += 1
        mark(messages, message, 0, work.present)
        counters[TOUCHED] += n_slots
        counters[MATCHED] += n - n_before
    return steps.arrivals.size, n


class Scan(Rival):
    """The index that is none."""

    name = "scan"

    def __init__(self, table: WithinTable, context: EngineContext) -> None:
        super().__init__(table, context)
        self._boxes = [np.zeros(0, np.float32) for _ in range(4)]
        self._fitting = np.zeros(_BLOCK, np.int32)

    def _write(self, slots: Ints) -> None:
        n = self._boxes[0].size
        self._boxes = [with_room(side, self.within.slots.capacity) for side in self._boxes]
        self._empty(slice(n, None))
        flatten(self.within.rows[slots], slots, self._metric, Flat(*self._boxes, self._fitting))

    def _empty(self, which: slice | Ints) -> None:
        self._boxes[0][which], self._boxes[2][which] = np.inf, -np.inf

    def insert(self, slots: Ints) -> None:
        self._write(slots)
        self._n_filed += slots.size

    def remove(self, slots: Ints) -> None:
        self._empty(slots)
        self._n_filed -= slots.size

    def refile(self, slots: Ints, before: Array) -> None:
        self._write(slots)

    def _build(self) -> None:
        self._write(self.within.used_slots)
        self._n_filed = len(self.within)

    def _match_from(self, first: int, steps: Steps, messages: MessageLayout, work: Work) -> tuple[int, int]:
        flat = Flat(*self._boxes, self._fitting)
        done: tuple[int, int] = scan_many(steps, first, messages, self.within.layout, self._metric, flat, work)
        return done

    @property
    def nbytes(self) -> int:
        return sum(side.nbytes for side in self._boxes)
