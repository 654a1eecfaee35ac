"""Subscriptions as columns, one table for each query kind: places or regions, parameters and words by slot.

`PointTable` serves `Similar`, `TopK` and `Nearest`; `WithinTable` holds regions and clauses. `numbers` are those of the
broker's registry, negative where a slot is free; the row of a free slot has ended, at whatever time the clock stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.columns.arena import (
    Array,
    Floats,
    Ints,
    Longs,
    Ragged,
    Slots,
    State,
    ranges,
    record,
    starts_of,
    with_room,
)
from nearcast.columns.clauses import pack_clauses, unpack_clauses
from nearcast.columns.fields.conditions import ConditionLayout, Conditions, file_clauses, filed_sizes
from nearcast.columns.message_table import measured
from nearcast.columns.regions import BOX, CIRCLE, RegionRows, ShapePool
from nearcast.held import unchanged
from nearcast.jit import kernel
from nearcast.model.kinds import Kind
from nearcast.space.regions import PolygonLayout, in_box, in_circle, in_polygon
from nearcast.text.strings import arrow_bytes, strings_to_arrow
from nearcast.text.vocabulary import Terms, Vocabulary
from nearcast.text.words import Words

NO_SUBSCRIPTION = -1
NOTHING_BEFORE = -1  # `since` of a subscription without backfill that came before all messages; 0 is one with backfill
ENDED = -(2**63)  # expiry of a free slot: no clock stands before it, and no subscription is taken that ends then
_NO_COUNTS: Ints = np.zeros(0, dtype=np.int32)

POINT = record(
    ("x", "f8"),
    ("y", "f8"),
    ("expires", "i8"),
    ("since", "i8"),  # only messages of a larger sequence count
    ("term_start", "i8"),
    ("n_terms", "i4"),
    ("k", "i4"),
    ("condition", "i4"),  # or NO_CONDITION
    ("mode", "u1"),  # measure of Similar, match of Nearest
    packed=True,
)

SIMILAR_SCALE = record(("delta", "f8"), ("tau", "f8"), ("weight", "f8"))  # weight: sum of idf over distinct words
TOPK_SCALE = record(("alpha", "f8"), ("norm", "f8"))  # norm: length of the tf-idf vector

WITHIN = record(
    ("x0", "f8"),  # the box itself, or a box around the circle or polygon
    ("y0", "f8"),
    ("x1", "f8"),
    ("y1", "f8"),
    ("expires", "i8"),
    ("since", "i8"),
    ("clause_start", "i8"),
    ("filed_start", "i8"),  # the clauses that indexes file it under: its own, or those with keys of its condition
    ("clause_size", "i4"),  # entries of `clauses` that are its own
    ("filed_size", "i4"),
    ("condition", "i4"),  # or NO_CONDITION
    ("ring_start", "i4"),  # first of its entries in the rings of `shapes`
    ("n_rings", "i4"),  # how many entries, 0 for a box
    ("region_kind", "i4"),  # BOX, CIRCLE or POLYGON
)


class PointLayout(NamedTuple):
    """Subscriptions that have a place, by slot; of `Nearest` there are no scales and no counts."""

    rows: Array  # POINT[n_slots]
    scales: Array  # SIMILAR_SCALE[n_slots] or TOPK_SCALE[n_slots]: what scores need besides
    terms: Ints  # int32[]: distinct words of slot s from term_start on, sorted by their UTF-8 bytes
    counts: Ints  # int32[]: how often each is repeated
    conditions: ConditionLayout


class WithinLayout(NamedTuple):
    """Subscriptions that have a region, by slot."""

    rows: Array  # WITHIN[n_slots]
    clauses: Ints  # int32[]: one clause after another: n positive, n negative, the positive terms, the negative terms
    shapes: PolygonLayout  # points and rings of circles (centre, then radius) and polygons
    conditions: ConditionLayout


class PointRows(NamedTuple):
    """Checked subscriptions of one kind with a place, on their way into a table."""

    rows: Longs  # row numbers in the caller's batch
    x: Floats
    y: Floats
    delta: Floats  # of Similar, as tau; else zeros
    tau: Floats
    alpha: Floats  # of TopK, else zeros
    k: Ints
    mode: Ints
    expires: Longs
    backfill: Array  # bool
    half_life: Longs  # of TopK with a decay, in milliseconds; else zeros


class WithinRows(NamedTuple):
    """Checked `Within` subscriptions on their way into a table."""

    rows: Longs  # row numbers in the caller's batch
    regions: RegionRows
    expires: Longs
    backfill: Array  # bool


class _Table:
    """What both tables share: slots, expiry and freeing."""

    def __init__(self, vocabulary: Vocabulary, dtype: np.dtype[Any]) -> None:
        self.vocabulary = vocabulary
        self.slots = Slots()
        self._rows = np.zeros(0, dtype=dtype)
        self._shown, self._shown_of = self._rows, self._rows  # rows in use, the same array until that changes
        self.numbers = np.zeros(0, dtype=np.int32)  # NO_SUBSCRIPTION: the slot is free
        self.conditions = Conditions(vocabulary)

    def __len__(self) -> int:
        return self.slots.n_taken

    def reweighed(self) -> None:
        """The weights of words were changed: compute what follows from them again."""

    def _take(self, numbers: Ints) -> Ints:
        slots = self.slots.take(numbers.size)
        self._rows = with_room(self._rows, self.slots.capacity)
        self.numbers = with_room(self.numbers, self.slots.capacity)
        self.numbers[slots] = numbers
        return slots

    @property
    def rows(self) -> Array:
        if self._shown_of is not self._rows or self._shown.size != self.slots.capacity:
            self._shown, self._shown_of = self._rows[: self.slots.capacity], self._rows
        return self._shown

    @property
    def used_slots(self) -> Ints:
        """All slots that hold a subscription."""
        return np.flatnonzero(self.numbers[: self.slots.capacity] >= 0).astype(np.int32)

    def in_use(self, slots: Ints) -> Ints:
        """Those of these slots that hold a subscription."""
        return slots.compress(self.numbers[slots] >= 0)

    @property
    def nbytes(self) -> int:
        """Bytes in use; room ahead is never touched, so the system has not given it out yet."""
        own = self.rows.nbytes + self.numbers[: self.slots.capacity].nbytes + self.slots.nbytes
        return own + self.conditions.nbytes

    def _give(self, slots: Ints) -> None:
        self.conditions.drop(self._rows["condition"][slots])
        self.numbers[slots], self._rows["expires"][slots] = NO_SUBSCRIPTION, ENDED
        self.slots.give(slots)

    def _where(self, rows: Array) -> State:
        """The texts of these rows' conditions as bytes, which a snapshot can hold; an empty one where there is none."""
        data, starts = arrow_bytes(self.conditions.texts(rows["condition"].copy()))
        return {"data": data, "starts": starts}


def where_column(copied: State) -> pa.Array:
    """Texts of conditions as they were before `copy`: an empty one is none."""
    texts = strings_to_arrow(copied["data"], copied["starts"])
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, texts.type), texts)


class PointTable(_Table):
    """`Similar`, `TopK` or `Nearest` subscriptions by slot.

    Scales and counts are kept of the first two, which score messages.
    """

    def __init__(self, vocabulary: Vocabulary, kind: Kind) -> None:
        super().__init__(vocabulary, POINT)
        self._weighs = kind != Kind.NEAREST
        self._half_lives: Longs = np.zeros(0, dtype=np.int64)  # nothing while nobody has one
        self._scales = np.zeros(0, dtype=SIMILAR_SCALE if kind == Kind.SIMILAR else TOPK_SCALE)
        self._shown_scales, self._shown_scales_of = self._scales, self._scales  # as `_shown` is of rows
        self._words = Ragged(terms=np.int32, counts=np.int32) if self._weighs else Ragged(terms=np.int32)
        self._layout: PointLayout | None = None

    @property
    def _given_scales(self) -> list[str]:
        """Fields of scales that a subscriber sets; the others follow from words."""
        return [name for name in self._scales.dtype.names if name not in ("norm", "weight")]

    @property
    def scales(self) -> Array:
        n = min(self.slots.capacity, self._scales.size)
        if self._shown_scales_of is not self._scales or self._shown_scales.size != n:
            self._shown_scales, self._shown_scales_of = self._scales[:n], self._scales
        return self._shown_scales

    @property
    def fades(self) -> bool:
        """Has anybody ever had a half-life?"""
        return self._half_lives.size > 0

    def half_lives_of(self, slots: Ints) -> Longs:
        """The half-lives of these subscriptions' scores in milliseconds, 0 where they do not fade."""
        found: Longs = np.zeros(slots.size, dtype=np.int64)
        if self.fades:
            found[:] = self._half_lives[slots]
        return found

    @property
    def layout(self) -> PointLayout:
        pools = self._words.pools
        counts = pools.get("counts", _NO_COUNTS)
        parts = self.rows, self.scales, pools["terms"], counts, self.conditions.layout
        layout = self._layout = unchanged(self._layout, PointLayout, *parts)
        return layout

    def write(
        self, given: Any, n_clauses: Ints, terms: Terms, numbers: Ints, since: int, where: pa.Array | None = None
    ) -> Ints:
        """Store what was decoded; points have no clauses."""
        return self.insert(given, terms, numbers, since, where)

    def insert(
        self, given: PointRows, terms: Terms, numbers: Ints, since: int | Longs, where: pa.Array | None = None
    ) -> Ints:
        """Store subscriptions; `since` is the newest sequence, before which nothing counts without backfill."""
        slots = self._take(numbers)
        n_terms = np.diff(terms.row_start)
        rows = np.zeros(given.x.size, dtype=POINT)
        for field in ("x", "y", "k", "mode", "expires"):
            rows[field] = getattr(given, field)
        rows["since"] = np.where(given.backfill, 0, since)
        rows["n_terms"] = n_terms
        rows["condition"] = self.conditions.add(where, rows.size)
        counts = {"counts": terms.counts} if self._weighs else {}
        rows["term_start"] = self._words.append(n_terms, terms=terms.terms, **counts)
        self._rows[slots] = rows
        if self._weighs:
            self._scales = with_room(self._scales, self.slots.capacity)
            for field in self._given_scales:
                self._scales[field][slots] = getattr(given, field)
            self.measure(slots)
        if self.fades or given.half_life.any():
            self._half_lives = with_room(self._half_lives, self.slots.capacity)
            self._half_lives[slots] = given.half_life
        return slots

    def copy(self, slots: Ints) -> State:
        """These subscriptions as `add_copied` takes them, in whichever broker: with words instead of terms."""
        rows = self._rows[slots]
        where = ranges(rows["term_start"], rows["n_terms"])
        data, starts = self.vocabulary.keys.take(self._words.pools["terms"][where])
        copied = {"rows": rows, "words": data, "starts": starts, "where": self._where(rows)}
        copied["half_lives"] = self.half_lives_of(slots)
        if self._weighs:
            copied |= {"scales": self._scales[slots], "counts": self._words.pools["counts"][where]}
        return copied

    def add_copied(self, copied: State, numbers: Ints) -> Ints:
        """Store subscriptions that another table held; only messages that they counted there count here."""
        rows = copied["rows"]
        terms = self.vocabulary.encode(Words(copied["words"], copied["starts"], starts_of(rows["n_terms"])))
        given = {name: rows[name].copy() for name in ("x", "y", "k", "mode", "expires")}
        given |= dict.fromkeys(("delta", "tau", "alpha"), np.zeros(numbers.size))
        if self._weighs:
            terms = terms._replace(counts=copied["counts"])
            given |= {name: copied["scales"][name].copy() for name in self._given_scales}
        none = np.zeros(numbers.size, dtype=bool)
        given |= {"half_life": copied["half_lives"]}
        points = PointRows(rows=np.arange(numbers.size), backfill=none, **given)
        return self.insert(points, terms, numbers, rows["since"], where_column(copied["where"]))

    def reweighed(self) -> None:
        self.measure(self.used_slots)

    def measure(self, slots: Ints) -> None:
        """Compute norm and weight of these subscriptions again, if they have any."""
        if self._weighs:
            norms, weights = measured(self._rows[slots], self._words, self.vocabulary.idf)
            for field, values in (("norm", norms), ("weight", weights)):
                if field in self._scales.dtype.names:
                    self._scales[field][slots] = values

    @contextmanager
    def moving(self, slots: Ints, places: Any) -> Iterator[Array]:
        """Give subscriptions other places, (lon, lat) each; yields their rows as they were."""
        before = self._rows[slots]
        self._rows["x"][slots], self._rows["y"][slots] = places[:, 0], places[:, 1]
        yield before

    def remove(self, slots: Ints) -> None:
        self._words.drop(self._rows["n_terms"][slots])
        self._give(slots)
        self.close_gaps()

    def close_gaps(self) -> None:
        """Forget the words that nobody holds once they are most of the pool."""
        if self._words.wasteful:
            used = self.used_slots
            self._rows["term_start"][used] = self._words.compact(
                self._rows["term_start"][used], self._rows["n_terms"][used]
            )

    def mark_terms(self, used: Array) -> None:
        """Set used[term] for every word of a subscription."""
        rows = self._rows[self.used_slots]
        used[self._words.pools["terms"][ranges(rows["term_start"], rows["n_terms"])]] = True
        self.conditions.mark_terms(used)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.scales.nbytes + self._half_lives.nbytes + self._words.nbytes

    def state(self) -> State:
        return {
            "slots": self.slots.state(),
            "rows": self._rows,
            "scales": self._scales,
            "half_lives": self._half_lives,
            "numbers": self.numbers,
            "words": self._words.state(),
            "conditions": self.conditions.state(),
        }

    def load(self, state: State) -> None:
        self.slots.load(state["slots"])
        self._rows, self._scales, self.numbers = state["rows"], state["scales"], state["numbers"]
        self._half_lives = state["half_lives"]
        self._words.load(state["words"])
        self.conditions.load(state["conditions"])


@kernel
def in_region(subscriptions: WithinLayout, slot: int, metric: int, x: float, y: float) -> bool:
    """Is the place inside the closed region of a subscription? Exact."""
    row = subscriptions.rows[slot]
    shapes = subscriptions.shapes
    if row.region_kind == CIRCLE:
        at = shapes.ring_start[row.ring_start]
        return in_circle(metric, shapes.xs[at], shapes.ys[at], shapes.xs[at + 1], x, y)
    if not in_box(row.x0, row.y0, row.x1, row.y1, x, y):
        return False
    if row.region_kind == BOX:
        return True
    return in_polygon(shapes, row.ring_start, row.ring_start + row.n_rings - 1, x, y)


@kernel
def clauses_hold(subscriptions: WithinLayout, slot: int, dense: Floats) -> bool:
    """Does a clause hold for the scattered words?"""
    row = subscriptions.rows[slot]
    clauses = subscriptions.clauses
    at = row.clause_start
    end = at + row.clause_size
    while at < end:
        first_negative = at + 2 + clauses[at]
        after = first_negative + clauses[at + 1]
        holds = True
        for i in range(at + 2, first_negative):
            if dense[clauses[i]] == 0.0:
                holds = False
                break
        if holds:
            for i in range(first_negative, after):
                if dense[clauses[i]] != 0.0:
                    holds = False
                    break
        if holds:
            return True
        at = after
    return False


@kernel
def mark_clause_terms(subscriptions: WithinLayout, slots: Any, used: Any) -> None:
    """Set used[term] for every term of the clauses of these subscriptions."""
    clauses = subscriptions.clauses
    for slot in slots:
        row = subscriptions.rows[slot]
        at = row.clause_start
        while at < row.clause_start + row.clause_size:
            after = at + 2 + clauses[at] + clauses[at + 1]
            for i in range(at + 2, after):
                used[clauses[i]] = True
            at = after


class WithinTable(_Table):
    """`Within` subscriptions by slot."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary, WITHIN)
        self._clauses = Ragged(clauses=np.int32)
        self._shapes = ShapePool()
        self._layout: WithinLayout | None = None

    @property
    def layout(self) -> WithinLayout:
        parts = self.rows, self._clauses.pools["clauses"], self._shapes.layout, self.conditions.layout
        layout = self._layout = unchanged(self._layout, WithinLayout, *parts)
        return layout

    def write(
        self, given: Any, n_clauses: Ints, terms: Terms, numbers: Ints, since: int, where: pa.Array | None = None
    ) -> Ints:
        """Store what was decoded; `terms` has two rows for each clause, positive and negative words."""
        clauses, sizes = pack_clauses(terms, n_clauses)
        return self.insert(given, clauses, sizes, numbers, since, where)

    def insert(
        self,
        given: WithinRows,
        clauses: Ints,
        clause_sizes: Array,
        numbers: Ints,
        since: int | Longs,
        where: pa.Array | None = None,
    ) -> Ints:
        """Store subscriptions; `since` is the newest sequence, before which nothing counts without backfill."""
        slots = self._take(numbers)
        rows = np.zeros(given.expires.size, dtype=WITHIN)
        rows["expires"], rows["since"] = given.expires, np.where(given.backfill, 0, since)
        rows["clause_size"] = rows["filed_size"] = clause_sizes
        rows["clause_start"] = rows["filed_start"] = self._clauses.append(clause_sizes, clauses=clauses)
        rows["condition"] = self.conditions.add(where, rows.size)
        if rows["condition"].any():
            self._file(rows, clauses)
        self._rows[slots] = rows
        self._place(slots, given.regions)
        return slots

    def _file(self, rows: Array, clauses: Ints) -> None:
        """Write the clauses that subscriptions are filed under, where their conditions have keys."""
        conditions, numbers = self.conditions.layout, rows["condition"].copy()
        sizes, filed = rows["clause_size"].astype(np.int64), np.zeros(rows.size, dtype=np.int64)
        filed_sizes(conditions, numbers, clauses, sizes, filed)
        packed = np.empty(int(filed.sum()), dtype=np.int32)
        file_clauses(conditions, numbers, clauses, sizes, packed)
        starts = self._clauses.append(filed, clauses=packed)
        keyed = filed > 0
        rows["filed_start"][keyed], rows["filed_size"][keyed] = starts[keyed], filed[keyed]

    def copy(self, slots: Ints) -> State:
        """These subscriptions as `add_copied` takes them, in whichever broker: with words instead of terms."""
        rows = self._rows[slots]
        sizes = rows["clause_size"].astype(np.int64)
        packed = self._clauses.pools["clauses"][ranges(rows["clause_start"], sizes)]
        n_clauses, lengths, is_term = unpack_clauses(packed, sizes)
        data, starts = self.vocabulary.keys.take(packed[is_term])
        points, rings, n_points = self._shapes.take(rows["ring_start"].astype(np.int64), rows["n_rings"])
        return {
            "rows": rows,
            "words": data,
            "starts": starts,
            "lengths": lengths,
            "clauses": n_clauses,
            "points": points,
            "rings": rings,
            "n_points": n_points,
            "where": self._where(rows),
        }

    def add_copied(self, copied: State, numbers: Ints) -> Ints:
        """Store subscriptions that another table held; only messages that they counted there count here."""
        rows = copied["rows"]
        terms = self.vocabulary.encode(Words(copied["words"], copied["starts"], starts_of(copied["lengths"])))
        boxes = np.stack([rows[side] for side in ("x0", "y0", "x1", "y1")], axis=1)
        regions = RegionRows(
            boxes, rows["region_kind"].copy(), copied["points"], copied["rings"], copied["n_points"],
            rows["n_rings"].astype(np.int64),
        )  # fmt: skip
        none = np.zeros(numbers.size, dtype=bool)
        given = WithinRows(np.arange(numbers.size), regions, rows["expires"].copy(), none)
        clauses, sizes = pack_clauses(terms, copied["clauses"])
        return self.insert(given, clauses, sizes, numbers, rows["since"], where_column(copied["where"]))

    def _place(self, slots: Ints, regions: RegionRows) -> None:
        for i, field in enumerate(("x0", "y0", "x1", "y1")):
            self._rows[field][slots] = regions.boxes[:, i]
        self._rows["region_kind"][slots], self._rows["n_rings"][slots] = regions.shapes, regions.n_rings
        self._rows["ring_start"][slots] = self._shapes.append(regions)

    @contextmanager
    def moving(self, slots: Ints, regions: Any) -> Iterator[Array]:
        """Give subscriptions other regions; yields their rows as they were, through which old points can be read."""
        before = self._rows[slots]
        self._shapes.drop(before["ring_start"].astype(np.int64), before["n_rings"])
        self._place(slots, regions)
        yield before
        self.close_gaps()

    def remove(self, slots: Ints) -> None:
        rows = self._rows[slots]
        self._clauses.drop(rows["clause_size"])
        self._clauses.drop(rows["filed_size"][rows["filed_start"] != rows["clause_start"]])
        self._shapes.drop(self._rows["ring_start"][slots].astype(np.int64), self._rows["n_rings"][slots])
        self._give(slots)
        self.close_gaps()

    def close_gaps(self) -> None:
        """Forget the clauses and points that nobody holds once they are most of a pool."""
        if self._clauses.wasteful:
            used = self.used_slots
            rows = self._rows[used]
            keyed = rows["filed_start"] != rows["clause_start"]
            starts = np.concatenate([rows["clause_start"], rows["filed_start"][keyed]])
            starts = self._clauses.compact(starts, np.concatenate([rows["clause_size"], rows["filed_size"][keyed]]))
            self._rows["clause_start"][used] = self._rows["filed_start"][used] = starts[: used.size]
            self._rows["filed_start"][used[keyed]] = starts[used.size :]
        if self._shapes.wasteful:
            used = self.used_slots
            starts = self._rows["ring_start"][used].astype(np.int64)
            self._rows["ring_start"][used] = self._shapes.compact(starts, self._rows["n_rings"][used])

    def mark_terms(self, used: Array) -> None:
        """Set used[term] for every word of a subscription."""
        mark_clause_terms(self.layout, self.used_slots, used)
        self.conditions.mark_terms(used)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._clauses.nbytes + self._shapes.nbytes

    def state(self) -> State:
        return {
            "slots": self.slots.state(),
            "rows": self._rows,
            "numbers": self.numbers,
            "clauses": self._clauses.state(),
            "shapes": self._shapes.state(),
            "conditions": self.conditions.state(),
        }

    def load(self, state: State) -> None:
        self.slots.load(state["slots"])
        self._rows, self.numbers = state["rows"], state["numbers"]
        self._clauses.load(state["clauses"])
        self._shapes.load(state["shapes"])
        self.conditions.load(state["conditions"])
