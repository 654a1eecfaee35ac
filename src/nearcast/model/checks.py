"""Values of any type become plain floats, ints, strings and tuples, or an `InvalidInput` that names the field.

Numpy scalars count as the numbers they are. Booleans are never numbers, and a float is never a whole number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np

from nearcast.errors import InvalidInput

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
LAST_INSTANT = 2**62  # of a clock, in milliseconds either way from 1970


def number(field: str, value: Any) -> float:
    """`value` as a finite float."""
    if type(value) is float and isfinite(value):
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidInput(field, value, "must be a number")
    try:
        plain = float(value)
    except OverflowError:  # an int or fraction past the largest float
        plain = float("inf")
    if not isfinite(plain):
        raise InvalidInput(field, value, "must be finite")
    return plain


def unit(field: str, value: Any) -> float:
    """`value` as a float from 0 to 1."""
    plain = number(field, value)
    if not 0.0 <= plain <= 1.0:
        raise InvalidInput(field, value, "must be in [0, 1]")
    return plain


def whole(field: str, value: Any, low: int = INT64_MIN, high: int = INT64_MAX) -> int:
    """`value` as an int from `low` to `high`."""
    if type(value) is int and low <= value <= high:
        return value
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidInput(field, value, "must be a whole number")
    plain = int(value)
    if plain < low:
        raise InvalidInput(field, value, f"must be >= {low}")
    if plain > high:
        raise InvalidInput(field, value, f"must be <= {high}")
    return plain


def instant(field: str, value: Any) -> int:
    """`value` as epoch milliseconds, so far from the ends of int64 that ages can be added."""
    return whole(field, value, -LAST_INSTANT, LAST_INSTANT)


def flag(field: str, value: Any) -> bool:
    """`value` as a bool."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(field, value, "must be true or false")
    return bool(value)


def string(field: str, value: Any) -> str:
    """`value` as a str that UTF-8 can hold."""
    if not isinstance(value, str):
        raise InvalidInput(field, value, "must be a string")
    plain = str.__str__(value)
    if not plain.isascii():
        try:
            plain.encode()
        except UnicodeEncodeError as error:
            rule = f"must be valid Unicode (lone surrogate at position {error.start + 1})"
            raise InvalidInput(field, value, rule) from None
    return plain


def one_of(field: str, value: Any, allowed: Iterable[str]) -> str:
    """`value` as one of the `allowed` strings."""
    names = tuple(allowed)
    if not isinstance(value, str) or value not in names:
        raise InvalidInput(field, value, "must be one of " + ", ".join(names))
    return str.__str__(value)


def identity(field: str, value: Any) -> str | int:
    """`value` as an id: a str, or an int of 64 bits."""
    if isinstance(value, str):
        return string(field, value)
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidInput(field, value, "must be a string or a whole number")
    return whole(field, value)


def strings(field: str, value: Any) -> tuple[str, ...]:
    """`value`, a list or other iterable of strings, as a tuple; a set is sorted, to be the same in every run."""
    if isinstance(value, str | bytes | Mapping):
        raise InvalidInput(field, value, "must be a list of strings")
    try:
        items = tuple(value)
    except TypeError:
        raise InvalidInput(field, value, "must be a list of strings") from None
    for item in items:
        if type(item) is not str or not item.isascii():
            break
    else:
        return tuple(sorted(items)) if isinstance(value, set | frozenset) else items
    for item in items:
        if not isinstance(item, str):
            raise InvalidInput(field, item, "must hold strings only")
    plain = tuple(string(field, item) for item in items)
    return tuple(sorted(plain)) if isinstance(value, set | frozenset) else plain
