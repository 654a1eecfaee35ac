"""Fields of messages and conditions of subscriptions from a file: raises if a number in them points outside."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearcast.broker.snapshots.structure import require, spans, within
from nearcast.columns.arena import Array, State, ranges
from nearcast.columns.fields.conditions import NO_CONDITION
from nearcast.columns.fields.decode import FIELD_KEY, FLAG, ITEM, NUMBER, TEXT
from nearcast.columns.fields.values import AT_LEAST
from nearcast.model.condition import REJECT

Mask = npt.NDArray[np.bool_]


def are_field_keys(entries: Array, arena: Array) -> Mask:
    """Which keys of a vocabulary are those of names and values, and no words."""
    filled = np.flatnonzero(entries["length"] > 0)
    keys: Mask = np.zeros(entries.size, dtype=bool)
    keys[filled] = arena[entries["start"][filled]] == FIELD_KEY
    return keys


def check_fields(fields: State, messages: Mask, keys: Mask) -> None:
    """Raise ValueError if fields of stored messages point outside; `keys` says which terms are names and values."""
    own, values = fields["spans"], fields["values"]["values"]
    filled = np.flatnonzero(own["n"])
    within(filled, messages.size, "messages with fields")
    require(messages[filled].all(), "fields of messages that are gone")
    spans(own["start"][filled], own["n"][filled], values.size, "fields")
    require(fields["values"]["dead"] <= values.size, "fields out of range")
    held = values[ranges(own["start"][filled], own["n"][filled])]
    _check_terms(held, keys, "fields")
    within(held["type"], ITEM + 1, "types of fields")


def check_conditions(conditions: State, held: Mask, asked: Array, keys: Mask) -> None:
    """Raise ValueError if conditions point outside or go round; `held` says which there are, `asked` who has which."""
    rows, comparisons = conditions["rows"], conditions["comparisons"]["comparisons"]
    require(held.size > NO_CONDITION and held[NO_CONDITION] and rows.size >= held.size, "conditions are missing")
    within(asked, held.size, "conditions")
    uses = np.bincount(asked, minlength=held.size)
    uses[NO_CONDITION] = 0
    require(np.array_equal(rows["uses"][: held.size], uses), "counts of conditions differ")
    uses[NO_CONDITION] = 1
    require(np.array_equal(uses > 0, held), "conditions and those who have them differ")
    own = rows[: held.size][held & (np.arange(held.size) != NO_CONDITION)]
    others = np.delete(rows, np.flatnonzero(held))
    empty = np.append(others, rows[NO_CONDITION])
    used = (empty[name].any() for name in ("n", "n_keys", "uses"))
    require(not any(used), "conditions that nobody has are not empty")
    require((own["n"] >= 1).all(), "conditions out of range")
    spans(own["start"], own["n"], comparisons.size, "comparisons")
    at = ranges(own["start"], own["n"])
    _check_terms(comparisons[at], keys, "comparisons")
    within(comparisons["operator"][at], AT_LEAST + 1, "operators")
    require(np.isin(comparisons["type"][at], (NUMBER, TEXT, FLAG)).all(), "types of comparisons out of range")
    position, end = at - np.repeat(own["start"], own["n"]), np.repeat(own["n"], own["n"])
    for target in (comparisons["if_true"][at], comparisons["if_false"][at]):
        require(((target > position) | (target < 0)).all(), "comparisons go in circles")
        require(((target < end) & (target >= REJECT)).all(), "comparisons out of range")
    terms = conditions["keys"]["keys"]
    spans(own["key_start"], own["n_keys"], terms.size, "keys of conditions")
    found = terms[ranges(own["key_start"], own["n_keys"])]
    within(found, keys.size, "keys of conditions")
    require(keys[found].all(), "keys of conditions are no keys")
    for pool in ("comparisons", "keys"):
        require(conditions[pool]["dead"] <= conditions[pool][pool].size, "pools of conditions out of range")


def _check_terms(rows: Array, keys: Mask, what: str) -> None:
    for name in ("name", "key"):
        within(rows[name], keys.size, what)
        require(keys[rows[name]].all(), f"names and values of {what} are missing")
