"""The conditions of subscriptions: each text of a `where` is read once, numbered, and kept as comparisons of terms.

Condition 0 is that of subscriptions without a `where`: nothing is asked of fields, and nobody looks at it.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.columns.arena import Array, Ints, Longs, Ragged, State, ranges, record, with_room
from nearcast.columns.fields.decode import FLAG, NUMBER, TEXT, key_bytes, name_key, name_of, number_of, value_key
from nearcast.columns.fields.values import (
    AT_LEAST,
    AT_MOST,
    EQUAL,
    HAS,
    LESS,
    MORE,
    UNEQUAL,
    FieldLayout,
    compares,
    n_fields,
)
from nearcast.held import unchanged
from nearcast.jit import kernel
from nearcast.model import condition as model
from nearcast.model.condition import Comparison, Condition, parse_condition
from nearcast.text.key_table import Keys
from nearcast.text.strings import arrow_bytes
from nearcast.text.vocabulary import Vocabulary

NO_CONDITION = 0
BY_KEYS, BY_RANGE = 1, 2  # what decides about a condition, if not its comparisons alone
NOTHING = -1

COMPARISON = record(
    ("number", "f8"),  # what a number is compared with
    ("name", "i4"),  # term of the field
    ("key", "i4"),  # term of field and value, of HAS that of the field
    ("rest", "i4"),  # as in FIELD
    ("type", "i4"),  # NUMBER, TEXT or FLAG; of HAS TEXT
    ("operator", "i4"),
    ("if_true", "i4"),  # the comparison to go on with, counted from the first; or ACCEPT, REJECT
    ("if_false", "i4"),
)
CONDITION = record(
    ("start", "i8"),  # its comparisons
    ("key_start", "i8"),  # its keys: terms that a message must hold to satisfy it
    ("uses", "i8"),  # by how many subscriptions
    ("low", "f8"),  # a number that a message must have to satisfy it, from `low` to `high`
    ("high", "f8"),
    ("ranged", "i4"),  # the name of that number, or NOTHING
    ("n", "i4"),
    ("n_keys", "i4"),
    ("decided", "i4"),  # BY_KEYS: whoever holds the keys satisfies it; BY_RANGE: any number between `low` and `high`
)
_OPERATORS = {
    model.HAS: HAS, model.EQUAL: EQUAL, "!=": UNEQUAL, "<": LESS, "<=": AT_MOST, ">": MORE, ">=": AT_LEAST,
}  # fmt: skip
_ACCEPT = model.ACCEPT


class ConditionLayout(NamedTuple):
    """Conditions by number."""

    rows: Array  # CONDITION[]
    comparisons: Array  # COMPARISON[]
    keys: Ints  # int32[]: terms


@kernel
def in_range(condition: Any, fields: FieldLayout, message: int) -> bool:
    """Has a message the number that a condition needs? Most fail here, before comparisons are looked at."""
    for i in range(n_fields(fields, message)):
        value = fields.values[fields.spans[message].start + i]
        if value.name == condition.ranged:
            return bool(value.type == NUMBER and condition.low <= value.number <= condition.high)
    return False


@kernel
def satisfies(conditions: ConditionLayout, number: int, fields: FieldLayout, message: int) -> bool:
    """Do the fields of a stored message satisfy a condition? Ask only where there is one: handing it over costs."""
    row = conditions.rows[number]
    if row.ranged != NOTHING and not in_range(row, fields, message):
        return False
    start = row.start
    has_none = n_fields(fields, message) == 0
    at = 0
    while at >= 0:
        comparison = conditions.comparisons[start + at]
        holds = not has_none and compares(comparison, fields, message)
        at = comparison.if_true if holds else comparison.if_false
    return at == _ACCEPT


@kernel
def compare_all(conditions: ConditionLayout, number: int, fields: FieldLayout, message: int, out: Array) -> None:
    """Write for every comparison of a condition whether it holds for a stored message."""
    row = conditions.rows[number]
    for at in range(row.n):
        out[at] = n_fields(fields, message) > 0 and compares(conditions.comparisons[row.start + at], fields, message)


class Conditions:
    """Conditions of the subscriptions of one table, equal texts once; forgotten when nobody has them."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._texts = Keys()
        self._texts.add_many(*arrow_bytes(pa.array([""])))
        self._rows = np.zeros(1, dtype=CONDITION)
        self._comparisons = Ragged(comparisons=COMPARISON)
        self._keys = Ragged(keys=np.int32)
        self._asked: Counter[int] = Counter()  # by the term of a name: how many comparisons ask for the field
        self._names: frozenset[str] | None = frozenset()
        self._layout: ConditionLayout | None = None

    def __len__(self) -> int:
        return len(self._texts) - 1

    @property
    def layout(self) -> ConditionLayout:
        parts = self._rows, self._comparisons.pools["comparisons"], self._keys.pools["keys"]
        layout = self._layout = unchanged(self._layout, ConditionLayout, *parts)
        return layout

    @property
    def names(self) -> frozenset[str]:
        """The fields that are asked for."""
        if self._names is None:
            terms = np.fromiter(self._asked, np.int32, len(self._asked))
            data, starts = self._vocabulary.keys.take(terms)
            self._names = frozenset(name_of(data[lo:hi].tobytes()) for lo, hi in pairwise(starts.tolist()))
        return self._names

    def _ask(self, terms: Ints, sign: int) -> None:
        """Comparisons with fields of these names are new, or gone if the sign is negative."""
        for term, count in zip(*(column.tolist() for column in np.unique_counts(terms)), strict=True):
            if term not in self._asked or self._asked[term] == -sign * count:
                self._names = None
            self._asked[term] += sign * count
            if not self._asked[term]:
                del self._asked[term]

    def add(self, texts: pa.Array | None, n: int) -> Ints:
        """The conditions of `n` subscriptions, given as checked texts with nulls, or None if nobody has one."""
        if texts is None or texts.null_count == n:
            return np.zeros(n, dtype=np.int32)
        given = pc.dictionary_encode(pc.fill_null(texts.cast(pa.large_string()), ""))
        numbers = self._texts.add_many(*arrow_bytes(given.dictionary))
        self._rows = with_room(self._rows, self._texts.capacity)
        new = np.flatnonzero((self._rows["uses"][numbers] == 0) & (numbers != NO_CONDITION))
        for at in new.tolist():
            self._compile(int(numbers[at]), parse_condition(given.dictionary[at].as_py()))
        found: Ints = numbers[given.indices.to_numpy()]
        counts = np.bincount(found, minlength=self._rows.size)
        counts[NO_CONDITION] = 0
        self._rows["uses"] += counts
        return found

    def _compile(self, number: int, condition: Condition) -> None:
        comparisons = np.zeros(len(condition.comparisons), dtype=COMPARISON)
        names = [name_key(comparison.name) for comparison in condition.comparisons]
        keys = [_key(comparison) for comparison in condition.comparisons]
        comparisons["name"], comparisons["key"] = self._terms(names), self._terms(keys)
        for at, comparison in enumerate(condition.comparisons):
            row, value = comparisons[at], comparison.value
            row["operator"] = _OPERATORS[comparison.operator]
            row["if_true"], row["if_false"] = comparison.if_true, comparison.if_false
            row["type"] = FLAG if isinstance(value, bool) else NUMBER if isinstance(value, int | float) else TEXT
            if row["type"] == NUMBER:
                row["number"], row["rest"] = number_of(value)  # type: ignore[arg-type]
        self._ask(comparisons["name"], 1)
        terms = comparisons["key"][np.array(condition.keys, dtype=np.int64)]
        row = self._rows[number]
        row["start"] = self._comparisons.append(np.array([comparisons.size]), comparisons=comparisons)[0]
        row["key_start"] = self._keys.append(np.array([terms.size]), keys=terms)[0]
        row["n"], row["n_keys"], row["uses"] = comparisons.size, terms.size, 0
        row["decided"] = BY_KEYS if condition.decided else BY_RANGE if condition.spans else 0
        row["ranged"] = NOTHING
        if condition.range is not None:
            name, row["low"], row["high"] = condition.range
            row["ranged"] = self._terms([name_key(name)])[0]

    def _terms(self, keys: list[bytes]) -> Ints:
        return self._vocabulary.enter(*key_bytes(pa.array(keys, pa.large_binary())))

    def drop(self, numbers: Ints) -> None:
        """Subscriptions with these conditions are gone."""
        numbers = numbers[numbers != NO_CONDITION]
        if not numbers.size:
            return
        counts = np.bincount(numbers, minlength=self._rows.size)
        self._rows["uses"] -= counts
        gone = np.flatnonzero((counts > 0) & (self._rows["uses"] == 0)).astype(np.int32)
        where = ranges(self._rows["start"][gone], self._rows["n"][gone])
        self._ask(self._comparisons.pools["comparisons"]["name"][where], -1)
        self._comparisons.drop(self._rows["n"][gone])
        self._keys.drop(self._rows["n_keys"][gone])
        self._rows["n"][gone] = self._rows["n_keys"][gone] = 0
        self._texts.free_many(gone)
        rows = self._rows
        if self._comparisons.wasteful:
            used = np.flatnonzero(rows["n"])
            rows["start"][used] = self._comparisons.compact(rows["start"][used], rows["n"][used])
        if self._keys.wasteful:
            used = np.flatnonzero(rows["n_keys"])
            rows["key_start"][used] = self._keys.compact(rows["key_start"][used], rows["n_keys"][used])

    def texts(self, numbers: Ints) -> pa.Array:
        """The text of each condition, null for none."""
        texts = self._texts.to_arrow_strings(numbers).cast(pa.string())
        return pc.if_else(pa.array(numbers == NO_CONDITION), pa.scalar(None, pa.string()), texts)

    def mark_terms(self, used: Array) -> None:
        """Set used[term] for every name and value."""
        comparisons = self._used_comparisons()
        used[comparisons["name"]] = True
        used[comparisons["key"]] = True

    def _used_comparisons(self) -> Array:
        rows = self._rows[self._rows["n"] > 0]
        return self._comparisons.pools["comparisons"][ranges(rows["start"], rows["n"])]

    @property
    def nbytes(self) -> int:
        return self._texts.nbytes + self._rows.nbytes + self._comparisons.nbytes + self._keys.nbytes

    def state(self) -> State:
        return {
            "texts": self._texts.state(),
            "rows": self._rows,
            "comparisons": self._comparisons.state(),
            "keys": self._keys.state(),
        }

    def load(self, state: State) -> None:
        self._texts.load(state["texts"])
        self._rows = state["rows"]
        self._comparisons.load(state["comparisons"])
        self._asked.clear()
        self._ask(self._used_comparisons()["name"], 1)
        self._keys.load(state["keys"])


def _key(comparison: Comparison) -> bytes:
    if comparison.value is None:
        return name_key(comparison.name)
    return value_key(comparison.name, comparison.value)


@kernel
def filed_sizes(conditions: ConditionLayout, numbers: Ints, clauses: Ints, sizes: Longs, out: Longs) -> None:
    """Write how much room clauses need with the keys of their conditions; 0 where these have none.

    `clauses` are those without keys, of which each subscription has `sizes` entries.
    """
    at = 0
    for i in range(numbers.size):
        n_keys = conditions.rows[numbers[i]].n_keys
        end = at + sizes[i]
        out[i] = sizes[i] if n_keys > 0 else 0
        while at < end:
            at += 2 + clauses[at] + clauses[at + 1]
            out[i] += n_keys


@kernel
def file_clauses(conditions: ConditionLayout, numbers: Ints, clauses: Ints, sizes: Longs, out: Ints) -> None:
    """Write the clauses of subscriptions with the keys of their conditions as positive words."""
    at, to = 0, 0
    for i in range(numbers.size):
        row = conditions.rows[numbers[i]]
        end = at + sizes[i]
        while at < end and row.n_keys > 0:
            n_positive, n_negative = clauses[at], clauses[at + 1]
            out[to], out[to + 1] = n_positive + row.n_keys, n_negative
            to += 2
            for j in range(n_positive):
                out[to + j] = clauses[at + 2 + j]
            to += n_positive
            for j in range(row.n_keys):
                out[to + j] = conditions.keys[row.key_start + j]
            to += row.n_keys
            for j in range(n_negative):
                out[to + j] = clauses[at + 2 + n_positive + j]
            to += n_negative
            at += 2 + n_positive + n_negative
        at = end
