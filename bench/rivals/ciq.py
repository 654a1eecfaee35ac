"""CIQ for `TopK`: every subscription in several cells, each with the least text that a message there must bring.

Chen et al., ICDE 2015, as section 2.2 of [SKYPE] retells it, over a sliding window. A subscription is filed under the
quarters beside its own at every level of a quadtree, and under its own last one: cells that share out the whole space.
For each it knows how near a message of that cell can be, hence its textual bound. A message goes through the inverted
files of the cells around it, subscription by subscription (DAAT), and verifies those whose text reaches the bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs, with_room
from nearcast.columns.fields.conditions import NO_CONDITION, satisfies
from nearcast.columns.scores import gather, scatter
from nearcast.columns.subscription_tables import PointTable
from nearcast.engines.contract import Changes, EngineContext, Stats
from nearcast.engines.exact import NO_MATCH, TOPK, rank
from nearcast.engines.kept.engine import (
    FIND,
    FIND_ROOM,
    FOLLOW,
    STEP,
    BatchInput,
    KeptEngine,
    message_of,
    note_found,
    policy_of,
    run_events,
)
from nearcast.engines.kept.layout import N_TOUCHED, AsOf
from nearcast.jit import NEED_ROOM, kernel
from nearcast.space.cells import morton, morton_box
from nearcast.space.distance import HAVERSINE, box_distance, wrap
from nearcast.window.live import Steps

DEPTH = 4  # levels of the quadtree
COVER = 3 * DEPTH + 1  # cells of a subscription
_BITS = 4  # of a mark: which of its cells
_LOOSE = 1e-6  # texts and bounds are float32
VISITED, CANDIDATES, VERIFIED = range(3)  # positions in `work`


class Filed(NamedTuple):
    """Inverted files of all cells."""

    keys: Longs  # int64[n_lists]: cell and word, sorted
    starts: Longs  # int64[n_lists + 1]
    marks: Ints  # int32[]: slot and number of the cell among the subscription's own, sorted in each list
    units: Array  # float32[]: weight of the word in the subscription's unit vector
    bounds: Array  # float32[n_slots * COVER]: least text that a message in that cell must bring
    nears: Array  # float32[n_slots * COVER]: greatest nearness of a message in that cell
    work: Longs  # int64[3]


class Rows(NamedTuple):
    """A row for each subscription, word and cell, before they are sorted."""

    keys: Longs  # int64[n]: cell and word
    marks: Ints  # int32[n]
    units: Array  # float32[n]


class Probe(NamedTuple):
    """Scratch for one message."""

    words: Ints  # int32[n]: its words
    units: Floats  # float64[n]: their weights in its unit vector
    at: Longs  # int64[n]: positions in their lists
    ends: Longs  # int64[n]: and where the lists end
    candidates: Ints  # int32[]


@kernel
def cell_number(level, code):
    """Number of a cell among those of all levels."""
    return ((1 << (2 * level)) - 1) // 3 + code


@kernel
def cover(code, n):
    """Level and code of a subscription's n-th cell, `code` being that of its smallest quarter."""
    if n == COVER - 1:
        return DEPTH, code
    level = n // 3 + 1
    own = code >> (2 * (DEPTH - level))
    return level, own ^ (n % 3 + 1)


@kernel
def bind(scale, buffer, near, floor_bounds, at):
    """Write the least text for each cell of a subscription."""
    for n in range(COVER):
        bound = -np.inf
        if scale.alpha < 1.0 and buffer.fades == 0:  # the floor of others is no score
            bound = (buffer.floor - scale.alpha * near[at + n]) / (1.0 - scale.alpha)
        floor_bounds[at + n] = bound - _LOOSE * abs(bound) - _LOOSE if bound > -np.inf else bound


@kernel
def bind_many(filed, subscriptions, buffers, slots):
    """Write the bounds of subscriptions."""
    for slot in slots:
        bind(subscriptions.scales[slot], buffers[slot], filed.nears, filed.bounds, slot * COVER)


@kernel
def spread(subscriptions, slots, idf, space, nears, rows):
    """Write a row for each subscription, word and cell, and how near the cells are; returns the number of rows."""
    metric, bounds = space.metric, space.bounds
    n = 0
    for slot in slots:
        row = subscriptions.rows[slot]
        x = wrap(row.x) if metric == HAVERSINE else row.x
        code = morton(x, row.y, bounds, DEPTH)
        for i in range(COVER):
            level, cell = cover(code, i)
            box = morton_box(metric, bounds, level, cell)
            away = box_distance(metric, x, row.y, box[0], box[1], box[2], box[3])
            nears[slot * COVER + i] = max(0.0, 1.0 - away / space.max_distance) + _LOOSE
            for j in range(row.term_start, row.term_start + row.n_terms):
                term = subscriptions.terms[j]
                rows.keys[n] = (np.int64(cell_number(level, cell)) << 32) + term
                rows.marks[n] = (slot << _BITS) + i
                rows.units[n] = subscriptions.counts[j] * idf[term] / subscriptions.scales[slot].norm * (1.0 + _LOOSE)
                n += 1
    return n


@kernel
def walk_cell(filed, probe, n_words, cell, n):
    """Add those to the `n` candidates whose text reaches their bound; returns how many there are then, or NEED_ROOM."""
    words, at, ends, candidates = probe.words, probe.at, probe.ends, probe.candidates
    for i in range(n_words):
        key = (np.int64(cell) << 32) + words[i]
        low, high = 0, filed.keys.size
        while low < high:
            middle = (low + high) >> 1
            if filed.keys[middle] < key:
                low = middle + 1
            else:
                high = middle
        at[i] = ends[i] = 0
        if low < filed.keys.size and filed.keys[low] == key:
            at[i], ends[i] = filed.starts[low], filed.starts[low + 1]
    while True:
        least = np.int64(2**31 - 1)
        for i in range(n_words):
            if at[i] < ends[i]:
                least = min(least, np.int64(filed.marks[at[i]]))
        if least == 2**31 - 1:
            return n
        filed.work[VISITED] += 1
        text = 0.0
        for i in range(n_words):
            if at[i] < ends[i] and filed.marks[at[i]] == least:
                text += filed.units[at[i]] * probe.units[i]
                at[i] += 1
        slot = least >> _BITS
        if text * (1.0 + _LOOSE) >= filed.bounds[slot * COVER + (least & 15)]:
            if n == candidates.size:
                return NEED_ROOM
            candidates[n] = slot
            n += 1


@kernel
def find(filed, batch, event, slot, probe, found):
    """Write who may want, or hold, a message, and how it ranks; returns their number, or NEED_ROOM."""
    messages, subscriptions, space = batch.messages, batch.subscriptions, batch.space
    idf, dense, candidates = batch.idf, batch.dense, probe.candidates
    row = messages.rows[slot]
    for i in range(row.n_terms):
        term = messages.terms[row.term_start + i]
        probe.words[i] = term
        probe.units[i] = messages.counts[row.term_start + i] * idf[term] / row.norm
    x = wrap(row.x) if space.metric == HAVERSINE else row.x
    code = morton(x, row.y, space.bounds, DEPTH)
    n = 0
    for level in range(1, DEPTH + 1):
        cell = cell_number(level, code >> (2 * (DEPTH - level)))
        n = walk_cell(filed, probe, row.n_terms, cell, n)
        if n == NEED_ROOM or n > found.slots.size:
            return NEED_ROOM
    filed.work[CANDIDATES] += n
    n_found = 0
    scatter(messages.terms, messages.counts, row.term_start, row.n_terms, idf, dense)
    for i in range(n):
        own = subscriptions.rows[candidates[i]]
        if own.expires <= batch.steps.clocks[event]:
            continue
        if own.condition != NO_CONDITION and not satisfies(
            subscriptions.conditions, own.condition, messages.fields, slot
        ):
            continue
        value = rank(TOPK, subscriptions, candidates[i], row, space, idf, dense)
        if value != NO_MATCH:
            found.slots[n_found], found.ranks[n_found] = candidates[i], value
            n_found += 1
    gather(messages.terms, row.term_start, row.n_terms, dense)
    filed.work[VERIFIED] += n_found
    return n_found


@kernel
def take_events(filed, batch, cursor, probe, found, results, policy):
    """Take events from the cursor on into the results, until DONE or something is missing; then call again."""
    while True:
        task = run_events(batch, batch.steps.arrivals.size, cursor, found, results, policy)
        if task == FIND:
            n = find(filed, batch, cursor[STEP], message_of(batch, cursor), probe, found)
            if n == NEED_ROOM:
                return FIND_ROOM
            note_found(cursor, n)
        elif task == FOLLOW:
            bind_many(filed, batch.subscriptions, results.buffers, results.touched[: results.counters[N_TOUCHED]])
        else:
            return task


class CIQ(KeptEngine):
    """`TopK` by CIQ; all is filed again when subscriptions come, go or move."""

    name = "ciq"

    def __init__(self, table: PointTable, context: EngineContext, strategy: str = "kmax", share: float = 3.0) -> None:
        super().__init__(TOPK, table, context, policy_of(context, strategy, share))
        self._filed: Filed | None = None
        self._work = np.zeros(3, np.int64)
        self._probe = Probe(
            np.zeros(0, np.int32), np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(1024, np.int32)
        )

    def insert(self, slots: Ints) -> None:
        super().insert(slots)
        self._filed = None

    def remove(self, slots: Ints) -> None:
        super().remove(slots)
        self._filed = None

    def reweighed(self) -> None:
        self._filed = None

    def fill(self, slots: Ints) -> Changes:
        self._filed = None
        return super().fill(slots)

    def _build(self) -> Filed:
        layout, slots, idf = self.table.layout, self.table.used_slots, self.context.vocabulary.idf
        n = int(layout.rows["n_terms"][slots].sum()) * COVER
        rows = Rows(np.zeros(n, np.int64), np.zeros(n, np.int32), np.zeros(n, np.float32))
        nears = np.zeros(layout.rows.size * COVER, np.float32)
        spread(layout, slots, idf, self.context.space.kernel_input, nears, rows)
        order = np.lexsort((rows.marks, rows.keys))
        keys, first = np.unique(rows.keys[order], return_index=True)
        bounds = np.full(nears.size, -np.inf, np.float32)
        starts = np.append(first, n).astype(np.int64)
        filed = Filed(keys, starts, rows.marks[order], rows.units[order], bounds, nears, self._work)
        bind_many(filed, layout, self.results.layout.buffers, slots)
        return filed

    def refill(self, slots: Ints, as_of: AsOf) -> None:
        super().refill(slots, as_of)
        if self._filed is not None:
            bind_many(self._filed, self.table.layout, self.results.layout.buffers, slots)

    def publish(self, steps: Steps) -> Changes:
        if self._filed is None and len(self.table):
            self._filed = self._build()
        messages = np.concatenate([steps.arrivals, steps.withdrawn])
        n_terms = self.context.live.table.layout.rows["n_terms"][messages[messages >= 0]]
        most = int(n_terms.max(initial=0))
        old = self._probe
        self._probe = Probe(
            with_room(old.words, most), with_room(old.units, most), with_room(old.at, most), with_room(old.ends, most),
            old.candidates,
        )  # fmt: skip
        return super().publish(steps)

    def _take_events(self, batch: BatchInput, cursor: Longs) -> int:
        task: int = take_events(
            self._filed, batch, cursor, self._probe, self._found, self.results.layout, self.results.policy
        )
        return task

    def grow_found(self) -> None:
        super().grow_found()
        self._probe = self._probe._replace(candidates=np.zeros(2 * self._probe.candidates.size, np.int32))

    def stats(self) -> Stats:
        stats = super().stats()
        own = sum(array.nbytes for array in self._filed) if self._filed is not None else 0
        work = {"visited": VISITED, "candidates": CANDIDATES, "verified": VERIFIED}
        return {**stats, **{name: int(self._work[at]) for name, at in work.items()}, "bytes": stats["bytes"] + own}
