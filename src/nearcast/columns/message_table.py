"""Stored messages: `MessageTable` keeps them by slot, with the words that each one holds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import (
    Array,
    Floats,
    Ints,
    Longs,
    Ragged,
    State,
    ranges,
    record,
    starts_of,
    with_room,
)
from nearcast.columns.decode_messages import MessageBatch
from nearcast.columns.fields.values import FieldLayout, FieldValues
from nearcast.columns.ids import Ids, OneKey
from nearcast.columns.pattern_rows import OrderLayout, PatternInput, expand_rows
from nearcast.columns.times import FOREVER
from nearcast.columns.tokens import Order
from nearcast.held import HeldCall, opened, unchanged
from nearcast.jit import NEED_ROOM, kernel
from nearcast.text.key_kernels import KeysLayout, add_many, store_many
from nearcast.text.one_text import N_DISTINCT, N_IN_ORDER, OneText, TextRoom
from nearcast.text.vocabulary import Terms, Vocabulary
from nearcast.text.words import Words

MESSAGE = record(
    ("sequence", "i8"),  # arrival number, from 1; 0 is a free slot
    ("x", "f8"),
    ("y", "f8"),
    ("ts", "i8"),
    ("expires_at", "i8"),  # min(expires, ts + age), or FOREVER
    ("withdrawn_by", "i8"),  # the newest sequence after the event that withdrew it, or FOREVER
    ("norm", "f8"),  # length of the tf-idf vector
    ("weight", "f8"),  # sum of idf over distinct words
    ("term_start", "i8"),
    ("n_terms", "i4"),
)


ORDER = record(
    ("start", "i8"),
    ("n", "i4"),  # of a list of keywords, whose words have no order, 0 or, with a stemmer, negative
    packed=True,
)


class MessageLayout(NamedTuple):
    """Stored messages by slot."""

    rows: Array  # MESSAGE[n_slots]
    terms: Ints  # int32[n_words]: distinct words of slot s from term_start on, sorted by their UTF-8 bytes
    counts: Ints  # int32[n_words]: how often each is repeated
    fields: FieldLayout


@kernel
def measure_rows(
    starts: Longs, lengths: Ints, terms: Ints, counts: Ints, idf: Floats, norms: Floats, weights: Floats
) -> None:
    """Length of the tf-idf vector and weight of the distinct words of each row, summed in row order."""
    for row in range(starts.size):
        square = 0.0
        weight = 0.0
        for i in range(starts[row], starts[row] + lengths[row]):
            value = counts[i] * idf[terms[i]]
            square += value * value
            weight += idf[terms[i]]
        norms[row] = square**0.5
        weights[row] = weight


def most_terms(rows: Array, slots: Ints) -> int:
    """The largest number of distinct words that one of these messages has; negative slots are none."""
    if slots.size == 1:
        slot = slots.item()
        return rows["n_terms"].item(slot) if slot >= 0 else 0
    return int(rows["n_terms"][slots[slots >= 0]].max(initial=0))


def measured(rows: Array, words: Ragged, idf: Floats) -> tuple[Floats, Floats]:
    """Norms and weights of rows that own words from `term_start` on."""
    norms, weights = np.empty(rows.size), np.empty(rows.size)
    terms, counts = words.pools["terms"], words.pools["counts"]
    measure_rows(rows["term_start"].copy(), rows["n_terms"].copy(), terms, counts, idf, norms, weights)
    return norms, weights


class StoredArrays(NamedTuple):
    """The arrays of a message table; there is room for one more row."""

    rows: Array  # MESSAGE[]
    order_rows: Array  # ORDER[]
    terms: Ints
    counts: Ints
    order: Ints


SEQUENCE, TS, EXPIRES_AT, TERM_START, ORDER_START, N_ORDER = range(6)  # positions in `StoreCall.new`


class StoreCall(NamedTuple):
    """A message that was admitted, and where it is stored."""

    keys: KeysLayout
    key: OneKey
    unique: bool
    stored: StoredArrays
    text: TextRoom
    idf: Floats
    new: Longs  # int64[6]
    place: Floats  # float64[2]


@kernel
def store_message(held: Any) -> Any:
    """Store a message whose text was encoded, a `Held` call; returns its slot, or NEED_ROOM with nothing changed."""
    call = opened(held)
    keys, key, stored, text, idf, new = call.keys, call.key, call.stored, call.text, call.idf, call.new
    if call.unique:
        done = add_many(keys, key.data, key.starts, 0, key.near, True, key.number)
    else:
        done = store_many(keys, key.data, key.starts, 0, key.number)
    if done == 0:
        return NEED_ROOM
    slot, n_terms = np.int64(key.number[0]), text.counts[N_DISTINCT]
    square, weight = 0.0, 0.0
    for i in range(n_terms):
        term, count = text.terms[i], text.repeats[i]
        stored.terms[new[TERM_START] + i], stored.counts[new[TERM_START] + i] = term, count
        value = count * idf[term]
        square += value * value
        weight += idf[term]
    for i in range(new[N_ORDER]):
        stored.order[new[ORDER_START] + i] = text.in_order[i]
    order, row = stored.order_rows[slot], stored.rows[slot]
    order.start, order.n = new[ORDER_START], new[N_ORDER]
    row.sequence, row.ts, row.expires_at = new[SEQUENCE], new[TS], new[EXPIRES_AT]
    row.x, row.y, row.withdrawn_by, row.norm, row.weight = call.place[0], call.place[1], FOREVER, square**0.5, weight
    row.term_start, row.n_terms = new[TERM_START], n_terms
    return slot


class FreeCall(NamedTuple):
    """Rows of messages, some of which are freed."""

    rows: Array  # MESSAGE[]
    order_rows: Array  # ORDER[]


@kernel
def free_rows(held: Any, slots: Ints) -> tuple[int, int]:
    """Mark rows of a `Held` call as free; returns how many entries of words, and of their order, nobody has now."""
    rows, order_rows = opened(held)
    n_terms, n_order = 0, 0
    for slot in slots:
        n_terms += rows[slot].n_terms
        n_order += abs(order_rows[slot].n)
        rows[slot].sequence = 0
    return n_terms, n_order


class MessageTable:
    """Messages by slot: their ids, places, times and words."""

    def __init__(self, vocabulary: Vocabulary, unique_ids: bool) -> None:
        self.vocabulary = vocabulary
        self.ids = Ids()
        self._unique_ids = unique_ids
        self._rows = np.zeros(0, dtype=MESSAGE)
        self._words = Ragged(terms=np.int32, counts=np.int32)
        self._fields = FieldValues(vocabulary)
        self._order_rows = np.zeros(0, dtype=ORDER)
        self.one_text = OneText(vocabulary)
        self._stems = vocabulary.analysis.analyzer.stemmer is not None
        self._order = Ragged(order=np.int32, surfaces=np.int32) if self._stems else Ragged(order=np.int32)
        self._layout: MessageLayout | None = None
        self._new, self._place = np.zeros(6, np.int64), np.zeros(2)  # of one message
        self._stored: StoredArrays | None = None
        self._store_message: HeldCall[StoreCall] = HeldCall(store_message)
        self._free_rows: HeldCall[FreeCall] = HeldCall(free_rows)

    def __len__(self) -> int:
        return len(self.ids.keys)

    @property
    def keeps_order(self) -> bool:
        """Is the order of words kept? Without a window only the phrases that there are may ask for it."""
        return self._unique_ids or len(self.vocabulary.patterns) > 0

    @property
    def pattern_input(self) -> PatternInput:
        """What kernels find the phrases and prefixes of stored messages with; ask again after every change."""
        patterns = self.vocabulary.patterns
        pools = self._order.pools
        order = OrderLayout(self._order_rows, pools["order"], pools.get("surfaces", pools["order"]))
        return PatternInput(patterns.layout, order, np.zeros(len(patterns), np.int32))

    def with_patterns(self, slots: Ints) -> tuple[MessageLayout, Ints]:
        """Rows of these messages with their phrases and prefixes among their words, and where each of them stands.

        Negative slots stay negative. While there are no patterns these are the stored rows themselves.
        """
        if not len(self.vocabulary.patterns):
            return self.layout, slots
        n_terms, dense = int(self._rows["n_terms"][slots[slots >= 0]].sum()), np.zeros(self.vocabulary.capacity)
        terms, counts = np.zeros(2 * n_terms + 64, np.int32), np.zeros(2 * n_terms + 64, np.int32)
        out = MessageLayout(np.zeros(slots.size, MESSAGE), terms, counts, self._fields.layout_of(slots))
        while expand_rows(self.pattern_input, self.layout, slots, dense, out) == NEED_ROOM:
            more = 2 * out.terms.size
            out = out._replace(terms=np.zeros(more, np.int32), counts=np.zeros(more, np.int32))
        return out, np.where(slots < 0, slots, np.arange(slots.size)).astype(np.int32)

    @property
    def rows(self) -> Array:
        """MESSAGE[n_slots]: of the layout the rows alone."""
        return self._rows

    @property
    def layout(self) -> MessageLayout:
        words = self._words.pools
        parts = self._rows, words["terms"], words["counts"], self._fields.layout
        layout = self._layout = unchanged(self._layout, MessageLayout, *parts)
        return layout

    @property
    def live_slots(self) -> Ints:
        """All slots in use, oldest message first."""
        slots = np.flatnonzero(self._rows["sequence"]).astype(np.int32)
        return slots[np.argsort(self._rows["sequence"][slots], kind="stable")]

    def store(
        self,
        batch: MessageBatch,
        encoded: tuple[Terms, Order],
        chosen: Longs,
        sequences: Longs,
        ts: Longs,
        expires_at: Longs,
    ) -> Ints:
        """Store the chosen rows of a batch; returns their slots. The last three are parallel to `chosen`."""
        terms, order = encoded
        ids, n_terms, words = batch.ids, np.diff(terms.row_start), (terms.terms, terms.counts)
        if chosen.size < batch.x.size:
            data, starts = batch.ids
            lengths = np.diff(starts)[chosen]
            ids = data[ranges(starts[:-1][chosen], lengths)], np.concatenate([[0], np.cumsum(lengths)])
            n_terms = n_terms[chosen]
            where = ranges(terms.row_start[:-1][chosen], n_terms)
            words = terms.terms[where], terms.counts[where]
            where = ranges(starts_of(np.abs(order.lengths))[:-1][chosen], np.abs(order.lengths[chosen]))
            order = Order(order.lengths[chosen], order.terms[where], order.surfaces[where])
        self.ids.type = self.ids.type or batch.id_type
        slots = self.ids.replace_many(ids) if self._unique_ids else self.ids.store_many(ids)
        self._make_room()
        self._store_order(slots, order)
        rows = np.zeros(chosen.size, dtype=MESSAGE)
        rows["sequence"], rows["x"], rows["y"] = sequences, batch.x[chosen], batch.y[chosen]
        rows["ts"], rows["expires_at"], rows["n_terms"] = ts, expires_at, n_terms
        rows["withdrawn_by"] = FOREVER
        rows["term_start"] = self._words.append(n_terms, terms=words[0], counts=words[1])
        rows["norm"], rows["weight"] = measured(rows, self._words, self.vocabulary.idf)
        self._rows[slots] = rows
        if batch.fields is not None:
            fields = batch.fields.take(chosen) if chosen.size < batch.x.size else batch.fields
            self._fields.store(slots, fields, self.ids.keys.capacity)
        return slots

    def _store_order(self, slots: Ints, order: Order) -> None:
        surfaces = {"surfaces": order.surfaces} if self._stems else {}
        starts = self._order.append(np.abs(order.lengths), order=order.terms, **surfaces) if order.terms.size else 0
        self._order_rows["start"][slots], self._order_rows["n"][slots] = starts, order.lengths

    def store_one(self, x: float, y: float, sequence: int, ts: int, expires_at: int) -> int:
        """Store a message whose id was just spelled, and whose text was just encoded; returns its slot."""
        room = self.one_text.room
        n_order = int(room.counts[N_IN_ORDER]) if self.keeps_order else 0
        n_terms = int(room.counts[N_DISTINCT])
        words, order = self._words, self._order
        words.make_room(n_terms)
        order.make_room(n_order)
        n = self.ids.keys.capacity + 1
        if n > self._rows.size or n > self._order_rows.size:
            self._rows, self._order_rows = with_room(self._rows, n), with_room(self._order_rows, n)
        pools = words.pools
        parts = self._rows, self._order_rows, pools["terms"], pools["counts"], order.pools["order"]
        stored = self._stored = unchanged(self._stored, StoredArrays, *parts)
        ids, idf, new, place = self.ids, self.vocabulary.idf, self._new, self._place
        new[SEQUENCE], new[TS], new[EXPIRES_AT] = sequence, ts, expires_at
        new[TERM_START], new[ORDER_START], new[N_ORDER] = words.used, order.used, n_order
        place[0], place[1] = x, y
        while True:
            call = StoreCall(ids.keys.layout, ids.one, self._unique_ids, stored, room, idf, new, place)
            slot: int = self._store_message(call)
            if slot != NEED_ROOM:
                break
            ids.keys.grow(int(ids.one.starts[1]))
        words.used += n_terms
        order.used += n_order
        ids.remember_one(slot)
        return slot

    def _make_room(self) -> None:
        self._rows = with_room(self._rows, self.ids.keys.capacity)
        self._order_rows = with_room(self._order_rows, self.ids.keys.capacity)

    def copy(self, slots: Ints) -> State:
        """These messages as `add_copied` takes them, in whichever broker.

        The order of words is not copied: who takes messages along keeps them in results, which no phrase has a part in.
        """
        rows = self._rows[slots]
        where = ranges(rows["term_start"], rows["n_terms"])
        ids, id_starts = self.ids.keys.take(slots)
        data, starts = self.vocabulary.keys.take(self._words.pools["terms"][where])
        counts = self._words.pools["counts"][where]
        named = {"ids": ids, "id_starts": id_starts, "id_type": self.ids.type}
        words = {"words": data, "starts": starts, "counts": counts}
        return {"rows": rows, **words, **named, "fields": self._fields.copy(slots)}

    def add_copied(self, copied: State) -> Ints:
        """Slots of messages that another table held, by the order there; those held here already are not added.

        A sequence says which message it is: brokers that see the same messages give them the same.
        """
        rows = copied["rows"]
        live = self.live_slots
        sequences = np.append(self._rows["sequence"][live], 0)
        at = np.searchsorted(sequences[:-1], rows["sequence"])
        slots = np.where(sequences[at] == rows["sequence"], np.append(live, -1)[at], -1).astype(np.int32)
        new = np.flatnonzero(slots < 0)
        if new.size:
            self.ids.type = self.ids.type or copied["id_type"]
            terms = self.vocabulary.encode(Words(copied["words"], copied["starts"], starts_of(rows["n_terms"])))
            where = ranges(terms.row_start[:-1][new], rows["n_terms"][new])
            id_starts = copied["id_starts"]
            lengths = np.diff(id_starts)[new]
            ids = self.ids.store_many((copied["ids"][ranges(id_starts[:-1][new], lengths)], starts_of(lengths)))
            self._make_room()
            self._order_rows["n"][ids] = 0
            added = rows[new]
            words = {"terms": terms.terms[where], "counts": copied["counts"][where]}
            added["term_start"] = self._words.append(added["n_terms"], **words)
            self._rows[ids] = added
            self._fields.add_copied(copied["fields"], new, ids, self.ids.keys.capacity)
            slots[new] = ids
        return slots

    def fields(self, slot: int) -> dict[str, Any]:
        """The fields of a message, by name."""
        return self._fields.of(slot)

    def measure(self, slots: Ints) -> None:
        """Compute norm and weight of these messages again."""
        norms, weights = measured(self._rows[slots], self._words, self.vocabulary.idf)
        self._rows["norm"][slots], self._rows["weight"][slots] = norms, weights

    def withdraw(self, slots: Ints, lasts: Longs) -> None:
        """Note in which events messages are withdrawn, by the newest sequence after each; they stay until freed."""
        self._rows["withdrawn_by"][slots] = lasts

    def free(self, slots: Ints) -> None:
        """Forget messages; their slots may be used again."""
        if not slots.size:
            return
        n_terms, n_order = self._free_rows(FreeCall(self._rows, self._order_rows), slots)
        self._words.dead += n_terms
        self._order.dead += n_order
        if self._fields.any:
            self._fields.free(slots)
        self.ids.keys.free_many(slots)
        if self._words.wasteful:
            live = self.live_slots
            self._rows["term_start"][live] = self._words.compact(
                self._rows["term_start"][live], self._rows["n_terms"][live]
            )
        if self._order.wasteful:
            live = self.live_slots
            own = self._order_rows[live]
            self._order_rows["start"][live] = self._order.compact(own["start"], np.abs(own["n"]))

    def mark_terms(self, used: Array) -> None:
        """Set used[term] for every word of a stored message."""
        live = self.live_slots
        used[self._words.pools["terms"][ranges(self._rows["term_start"][live], self._rows["n_terms"][live])]] = True
        self._fields.mark_terms(used)
        if self._stems:
            own = self._order_rows[live]
            used[self._order.pools["surfaces"][ranges(own["start"], np.abs(own["n"]))]] = True

    @property
    def nbytes(self) -> int:
        words = self._words.nbytes + self._order_rows.nbytes + self._order.nbytes
        return self._rows.nbytes + words + self._fields.nbytes + self.ids.nbytes

    def state(self) -> State:
        return {
            "ids": self.ids.state(),
            "rows": self._rows,
            "words": self._words.state(),
            "order_rows": self._order_rows,
            "order": self._order.state(),
            "fields": self._fields.state(),
        }

    def load(self, state: State) -> None:
        self.ids.load(state["ids"])
        self._rows = state["rows"]
        self._words.load(state["words"])
        self._fields.load(state["fields"])
        self._order_rows = state["order_rows"]
        self._order.load(state["order"])
