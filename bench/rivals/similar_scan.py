"""Every message against every subscription of `Similar`: places in flat arrays first, then words in flat arrays."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bench.rivals.match import mark, satisfied
from bench.rivals.similar_base import (
    ACCESSED,
    ANSWERS,
    CANDIDATES,
    LOOSE,
    NEVER,
    ROUNDED,
    Asked,
    SimilarRival,
    looseness,
    need_of_place,
    share_of_text,
    squared_reach,
    ssim_bound,
    text_bound,
    to_units,
)
from nearcast.columns.arena import Array, Ints, Ragged, record, with_room
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.scores import gather, scatter, similar_score
from nearcast.columns.subscription_tables import PointTable
from nearcast.engines.contract import EngineContext
from nearcast.engines.exact import similarity
from nearcast.jit import kernel
from nearcast.window.live import Steps

_ANYWHERE = 1e30  # more than any squared line; infinite is the reach of places that cannot be compared
_BLOCK = 4096  # places that are compared before the words of those that are near enough are looked at

ASKER = record(
    ("start", "i8"),  # of its words in `terms`
    ("expires", "i8"),
    ("delta", "f8"),
    ("tau", "f8"),
    ("n", "i4"),
    ("loose", "i4"),  # of its text bound
)


class Flat(NamedTuple):
    """Subscriptions by slot; where there is none `reach` is -1 and `tau` NEVER."""

    x: Array  # float32[n_slots]: the place, see `similar_base`
    y: Array
    z: Array
    reach: Array  # float32[n_slots]: squared line beyond which the best text does not suffice
    askers: Array  # ASKER[n_slots]
    terms: Ints  # int32[]
    shares: Array  # float32[]: of each word in its subscription
    near: Ints  # int32[_BLOCK]: scratch
    present: Array  # uint8[n_terms]: scratch, 1 for the words of the message at hand


@kernel
def flatten(subscriptions, slots, where, centre, idf, flat):
    """Write these subscriptions; `start` of their askers is set."""
    for slot in slots:
        row, scale = subscriptions.rows[slot], subscriptions.scales[slot]
        u, v, w = to_units(where, centre, row.x, row.y)
        reach = squared_reach(where, need_of_place(scale.delta, scale.tau, 1.0))
        reach = min(reach, _ANYWHERE)
        if u == math.inf:
            u, v, w, reach = 0.0, 0.0, 0.0, math.inf
        flat.x[slot], flat.y[slot], flat.z[slot], flat.reach[slot] = u, v, w, reach
        asker = flat.askers[slot]
        asker.expires, asker.delta, asker.tau, asker.loose = row.expires, scale.delta, scale.tau, looseness(row.mode)
        for i in range(row.n_terms):
            term = subscriptions.terms[row.term_start + i]
            flat.terms[asker.start + i] = term
            flat.shares[asker.start + i] = share_of_text(row.mode, idf[term], scale.weight, row.n_terms)


@kernel
def near_block(flat, first, last, spot, slack):
    """Write the slots in [first, last) whose reach holds the place; returns how many. No branch, so it is fast."""
    x, y, z, reach, near = flat.x, flat.y, flat.z, flat.reach, flat.near
    u, v, w = spot
    n = 0
    for i in range(first, last):
        a, b, c = x[i] - u, y[i] - v, z[i] - w
        near[n] = i
        n += a * a + b * b + c * c - slack <= reach[i]
    return n


@kernel
def scan_many(steps, first, messages, subscriptions, flat, asked, out):
    """As `match_similar`: place, then words, then both together rule out what they can, and the score decides."""
    n = 0
    n_slots, dense = subscriptions.rows.size, asked.dense
    x, y, z, reach, near = flat.x, flat.y, flat.z, flat.reach, flat.near
    askers, terms, shares, present = flat.askers, flat.terms, flat.shares, flat.present
    for event in range(first, steps.arrivals.size):
        if steps.arrivals[event] < 0:
            continue
        if n + n_slots > out.slots.size:
            return event, n
        n_before, n_verified = n, 0
        message = messages.rows[steps.arrivals[event]]
        place = to_units(asked.where, asked.centre, message.x, message.y)
        slack = np.float32(0.0)
        if place[0] == math.inf:
            place, slack = (0.0, 0.0, 0.0), np.float32(math.inf)
        u, v, w = np.float32(place[0]), np.float32(place[1]), np.float32(place[2])
        scatter(messages.terms, messages.counts, message.term_start, message.n_terms, asked.idf, dense)
        mark(messages, message, 1, present)
        for start in range(0, n_slots, _BLOCK):
            n_near = near_block(flat, start, min(start + _BLOCK, n_slots), (u, v, w), slack)
            for i in range(n_near):
                slot = near[i]
                asker = askers[slot]
                share = 0.0
                for word in range(asker.start, asker.start + asker.n):
                    if present[terms[word]]:
                        share += shares[word]
                if share == 0.0 and asker.delta > 1.0 - asker.tau + LOOSE:  # the place alone never suffices
                    continue
                a, b, c = x[slot] - u, y[slot] - v, z[slot] - w
                line = a * a + b * b + c * c - slack if reach[slot] < math.inf else 0.0
                score = similar_score(asker.delta, text_bound(asker.loose, share * ROUNDED), ssim_bound(line))
                if score < asker.tau - LOOSE or asker.expires <= steps.clocks[event]:
                    continue
                if not satisfied(subscriptions, slot, messages.fields, steps.arrivals[event]):
                    continue
                n_verified += 1
                score = similarity(subscriptions, slot, message, asked.where, asked.idf, dense)
                if score >= asker.tau:
                    out.events[n], out.slots[n], out.scores[n] = event, slot, score
                    n += 1
        gather(messages.terms, message.term_start, message.n_terms, dense)
        mark(messages, message, 0, present)
        asked.counters[ACCESSED] += n_slots
        asked.counters[CANDIDATES] += n_verified
        asked.counters[ANSWERS] += n - n_before
    return steps.arrivals.size, n


class SimilarScan(SimilarRival):
    """The index that is none."""

    name = "scan"

    def __init__(self, table: PointTable, context: EngineContext) -> None:
        super().__init__(table, context)
        self._places = [np.zeros(0, np.float32) for _ in range(4)]
        self._askers = np.zeros(0, ASKER)
        self._words = Ragged(terms=np.int32, shares=np.float32)
        self._near = np.zeros(_BLOCK, np.int32)
        self._present = np.zeros(0, np.uint8)

    @property
    def _flat(self) -> Flat:
        pools = self._words.pools
        self._present = with_room(self._present, self.context.vocabulary.idf.size)
        return Flat(*self._places, self._askers, pools["terms"], pools["shares"], self._near, self._present)

    def insert(self, slots: Ints) -> None:
        n = self._askers.size
        self._places = [with_room(side, self.points.slots.capacity) for side in self._places]
        self._askers = with_room(self._askers, self.points.slots.capacity)
        self._empty(np.arange(n, self._askers.size, dtype=np.int32))
        lengths = self.points.rows["n_terms"][slots]
        none = np.zeros(int(lengths.sum()), np.int32)
        self._askers["start"][slots] = self._words.append(lengths, terms=none, shares=none)
        self._askers["n"][slots] = lengths
        self._write(slots)
        self._n_filed += slots.size

    def _write(self, slots: Ints) -> None:
        flatten(self.points.layout, slots, self._space, self._centre, self.context.vocabulary.idf, self._flat)

    def _empty(self, slots: Ints) -> None:
        self._places[3][slots] = -1.0
        self._askers["tau"][slots] = NEVER
        self._askers["n"][slots] = 0

    def remove(self, slots: Ints) -> None:
        self._words.drop(self._askers["n"][slots])
        self._empty(slots)
        self._n_filed -= slots.size
        if self._words.wasteful:
            used = np.flatnonzero(self._askers["n"] > 0)
            self._askers["start"][used] = self._words.compact(self._askers["start"][used], self._askers["n"][used])

    def refile(self, slots: Ints) -> None:
        self._write(slots)

    def _build(self) -> None:
        self._words = Ragged(terms=np.int32, shares=np.float32)
        self._empty(np.arange(self._askers.size, dtype=np.int32))
        self._n_filed = 0
        self.insert(self.points.used_slots)

    def _match_from(self, first: int, steps: Steps, messages: MessageLayout, asked: Asked) -> tuple[int, int]:
        done: tuple[int, int] = scan_many(steps, first, messages, self.points.layout, self._flat, asked, self._room)
        return done

    @property
    def nbytes(self) -> int:
        return sum(side.nbytes for side in self._places) + self._askers.nbytes + self._words.nbytes
