"""The fields of stored messages by slot, and the one check whether they satisfy a comparison."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs, Ragged, State, ranges, record, starts_of, with_room
from nearcast.columns.fields.decode import FLAG, ITEM, LIST, NUMBER, TEXT, FieldColumns, key_bytes
from nearcast.held import unchanged
from nearcast.jit import kernel
from nearcast.text.vocabulary import Vocabulary

SPAN = record(("start", "i8"), ("n", "i4"))
FIELD = record(
    ("number", "f8"),  # of a number
    ("name", "i4"),  # term
    ("key", "i4"),  # term of name and value; of a list that of its name
    ("rest", "i4"),  # what a whole number is larger than `number`
    ("type", "i4"),  # NUMBER, TEXT, FLAG, LIST or ITEM
)

HAS, EQUAL, UNEQUAL, LESS, AT_MOST, MORE, AT_LEAST = range(7)  # operators


class FieldLayout(NamedTuple):
    """Fields of messages by slot. A message past the last span has none."""

    spans: Array  # SPAN[]: those of slot s are values[start : start + n]
    values: Array  # FIELD[]: a list is followed by its items
    entries: Array  # of the vocabulary: where the bytes of a term are
    arena: Array  # of the vocabulary: the bytes


@kernel
def n_fields(fields: FieldLayout, slot: int) -> Any:
    """How many values a message has."""
    return fields.spans[slot].n if slot < fields.spans.size else 0


@kernel
def byte_order(entries: Array, arena: Array, a: int, b: int) -> int:
    """Negative, 0 or positive, as the key of term a sorts before, with or after that of term b, by bytes."""
    if a == b:
        return 0
    one, two = entries[a], entries[b]
    for i in range(min(one["length"], two["length"])):
        byte_a, byte_b = arena[one["start"] + i], arena[two["start"] + i]
        if byte_a != byte_b:
            return -1 if byte_a < byte_b else 1
    return -1 if one["length"] < two["length"] else 1


@kernel
def in_order(operator: int, order: int) -> bool:
    """Does an operator hold for two values of this order?"""
    if operator == EQUAL:
        return order == 0
    if operator == UNEQUAL:
        return order != 0
    if operator == LESS:
        return order < 0
    if operator == AT_MOST:
        return order <= 0
    return order > 0 if operator == MORE else order >= 0


@kernel
def number_order(value: Any, other: Any) -> int:
    """Negative, 0 or positive, as one number is smaller than, equal to or larger than another; exact."""
    if value.number != other.number:
        return -1 if value.number < other.number else 1
    return 0 if value.rest == other.rest else -1 if value.rest < other.rest else 1


@kernel
def compares(comparison: Any, fields: FieldLayout, slot: int) -> bool:
    """Does a comparison hold for the fields of a message? Not if the field is missing or of another type."""
    operator, kind, values = comparison.operator, comparison.type, fields.values
    there, found = False, False  # is there a string or a list, and the string asked for?
    start = fields.spans[slot].start
    for i in range(start, start + fields.spans[slot].n):
        value = values[i]
        if value.name != comparison.name:
            continue
        if operator == HAS:
            return True
        if kind == NUMBER:
            if value.type == NUMBER:
                return in_order(operator, number_order(value, comparison))
        elif kind == FLAG:
            if value.type == FLAG:
                return in_order(operator, value.key - comparison.key)
        elif operator <= UNEQUAL:
            there = there or value.type == TEXT or value.type == LIST
            found = found or ((value.type == TEXT or value.type == ITEM) and value.key == comparison.key)
        elif value.type == TEXT:
            return in_order(operator, byte_order(fields.entries, fields.arena, value.key, comparison.key))
    if operator == EQUAL:
        return found
    return there and not found


class FieldValues:
    """The fields of messages by slot; nothing is kept before the first message that has any."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._spans = np.zeros(0, dtype=SPAN)
        self._values = Ragged(values=FIELD)
        self._layout: FieldLayout | None = None

    @property
    def any(self) -> bool:
        """Did a message ever have fields?"""
        return self._spans.size > 0

    @property
    def layout(self) -> FieldLayout:
        keys = self._vocabulary.keys.layout
        parts = self._spans, self._values.pools["values"], keys.entries, keys.arena
        layout = self._layout = unchanged(self._layout, FieldLayout, *parts)
        return layout

    def layout_of(self, slots: Ints) -> FieldLayout:
        """The same with the messages of these slots in a row; negative ones have no fields."""
        spans = np.zeros(slots.size, dtype=SPAN)
        known = np.flatnonzero((slots >= 0) & (slots < self._spans.size))
        spans[known] = self._spans[slots[known]]
        return self.layout._replace(spans=spans)

    def store(self, slots: Ints, given: FieldColumns | None, capacity: int) -> None:
        """Store the fields of messages; `capacity` is one past the largest slot ever given."""
        if given is not None:
            names = self._vocabulary.enter(*key_bytes(given.names))[given.name_at]
            keys = self._vocabulary.enter(*key_bytes(given.keys))[given.key_at]
            values = np.zeros(names.size, dtype=FIELD)
            values["name"], values["key"], values["type"] = names, keys, given.types
            values["number"], values["rest"] = given.numbers, given.rests
            self._append(slots, given.lengths, values, capacity)

    def _append(self, slots: Ints, lengths: Longs, values: Array, capacity: int) -> None:
        self._spans = with_room(self._spans, capacity)
        self._spans["start"][slots] = self._values.append(lengths, values=values)
        self._spans["n"][slots] = lengths

    def free(self, slots: Ints) -> None:
        """Messages are gone, and their fields with them."""
        slots = slots[slots < self._spans.size]
        self._values.drop(self._spans["n"][slots])
        self._spans["n"][slots] = 0
        if self._values.wasteful:
            used = np.flatnonzero(self._spans["n"])
            self._spans["start"][used] = self._values.compact(self._spans["start"][used], self._spans["n"][used])

    def copy(self, slots: Ints) -> State:
        """The fields of these messages as `add_copied` takes them, in whichever broker: with keys instead of terms."""
        spans = np.zeros(slots.size, dtype=SPAN)
        known = slots < self._spans.size
        spans[known] = self._spans[slots[known]]
        values = self._values.pools["values"][ranges(spans["start"], spans["n"])]
        names, name_starts = self._vocabulary.keys.take(values["name"].copy())
        keys, key_starts = self._vocabulary.keys.take(values["key"].copy())
        return {
            "lengths": spans["n"].astype(np.int64),
            "values": values,
            "names": names,
            "name_starts": name_starts,
            "keys": keys,
            "key_starts": key_starts,
        }

    def of(self, slot: int) -> dict[str, Any]:
        """The fields of a message, by name."""
        found: dict[str, Any] = {}
        span = self._spans[slot] if slot < self._spans.size else np.zeros(1, dtype=SPAN)[0]
        for value in self._values.pools["values"][span["start"] : span["start"] + span["n"]]:
            name, text = self._key(value["name"])[2:], self._key(value["key"])
            text = text[len(name) + 4 :]  # past two bytes, the name, one byte, and the type
            if value["type"] == LIST:
                found[name.decode()] = []
            elif value["type"] == ITEM:
                found[name.decode()].append(text.decode())
            elif value["type"] == NUMBER:
                number = float(value["number"])
                found[name.decode()] = int(number) + int(value["rest"]) if number.is_integer() else number
            else:
                found[name.decode()] = text == b"1" if value["type"] == FLAG else text.decode()
        return found

    def _key(self, term: int) -> bytes:
        return self._vocabulary.keys.take(np.array([term], np.int32))[0].tobytes()

    def add_copied(self, copied: State, chosen: Longs, slots: Ints, capacity: int) -> None:
        """Store the fields of the chosen ones of messages that another table held, in these slots."""
        if not copied["values"].size:
            return
        values = copied["values"].copy()
        values["name"] = self._vocabulary.enter(copied["names"], copied["name_starts"])
        values["key"] = self._vocabulary.enter(copied["keys"], copied["key_starts"])
        lengths = copied["lengths"]
        where = ranges(starts_of(lengths)[:-1][chosen], lengths[chosen])
        self._append(slots, lengths[chosen], values[where], capacity)

    def mark_terms(self, used: Array) -> None:
        """Set used[term] for every name and value of a message."""
        spans = self._spans[self._spans["n"] > 0]
        values = self._values.pools["values"][ranges(spans["start"], spans["n"])]
        used[values["name"]] = True
        used[values["key"]] = True

    @property
    def nbytes(self) -> int:
        return self._spans.nbytes + self._values.nbytes

    def state(self) -> State:
        return {"spans": self._spans, "values": self._values.state()}

    def load(self, state: State) -> None:
        self._spans = state["spans"]
        self._values.load(state["values"])
