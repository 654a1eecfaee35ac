"""Values of any type become plain floats, ints, strings and tuples, or an `InvalidInput` that names the field.

Numpy scalars count as the numbers they are. Booleans and durations are never numbers, and a float is never a whole
number. Whatever a value raises when it is read becomes an `InvalidInput` as well, but for a lack of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from math import isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np

from nearcast.errors import InvalidInput, NearcastError, shown

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

_NOT_NUMBERS = (bool, np.timedelta64)  # though Python and NumPy call them whole


def refusal(field: str, value: Any, error: Exception, again: Callable[[], Any]) -> InvalidInput:
    """An error met while `value` was read, as the `InvalidInput` that it is or stands for; others are raised again.

    Objects of callers run code of callers, and may raise anything. So may the handler of a signal that comes just then;
    but that is not raised a second time when the value is read `again`, and is not the value's fault.
    """
    if isinstance(error, InvalidInput):
        return error
    if not raises_again(error, again):
        raise error
    return InvalidInput(field, value, f"must be readable (it raised {shown(error)})")


def raises_again(error: Exception, again: Callable[[], Any]) -> bool:
    """Does the call that raised this do so once more? A lack of memory and a nested call are not asked about."""
    if isinstance(error, MemoryError | NearcastError):
        return False
    try:
        again()
    except Exception as second:
        return type(second) is type(error)
    return False


def is_a(value: Any, kinds: Any) -> bool:
    """`isinstance`, also for a value that does not tell its class."""
    try:
        return isinstance(value, kinds)
    except Exception as error:
        if raises_again(error, lambda: isinstance(value, kinds)):
            return False
        raise


def plain_copy(field: str, value: Any, kinds: tuple[type[Any], ...]) -> Any:
    """`value`, one of these dataclasses, and nothing of a class that the caller made of it; None if it is none."""
    if type(value) in kinds:
        return value
    if not is_a(value, kinds):
        return None
    try:
        return _copied(value, kinds)
    except Exception as error:
        raise refusal(field, value, error, lambda: _copied(value, kinds)) from error


def _copied(value: Any, kinds: tuple[type[Any], ...]) -> Any:
    kind = next(kind for kind in kinds if isinstance(value, kind))
    return kind(**{name.name: getattr(value, name.name) for name in fields(kind) if name.init})


def number(field: str, value: Any) -> float:
    """`value` as a finite float."""
    if type(value) is float and isfinite(value):
        return value
    if is_a(value, _NOT_NUMBERS) or not is_a(value, Real):
        raise InvalidInput(field, value, "must be a number")
    try:
        plain = float(value)
    except OverflowError:  # an int or fraction past the largest float
        plain = float("inf")
    except Exception as error:
        raise refusal(field, value, error, lambda: float(value)) from error
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
    if is_a(value, _NOT_NUMBERS) or not is_a(value, Integral):
        raise InvalidInput(field, value, "must be a whole number")
    try:
        plain = int(value)
    except Exception as error:
        raise refusal(field, value, error, lambda: int(value)) from error
    if plain < low:
        raise InvalidInput(field, value, f"must be >= {low}")
    if plain > high:
        raise InvalidInput(field, value, f"must be <= {high}")
    return plain


def flag(field: str, value: Any) -> bool:
    """`value` as a bool."""
    if not is_a(value, bool | np.bool_):
        raise InvalidInput(field, value, "must be true or false")
    return bool(value)


def string(field: str, value: Any) -> str:
    """`value` as a str that UTF-8 can hold."""
    if not is_a(value, str):
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
    plain = str.__str__(value) if is_a(value, str) else None
    if plain not in names:
        raise InvalidInput(field, value, "must be one of " + ", ".join(names))
    return plain


def identity(field: str, value: Any) -> str | int:
    """`value` as an id: a str, or an int of 64 bits."""
    if type(value) is int:
        return whole(field, value)
    if is_a(value, str):
        return string(field, value)
    if is_a(value, _NOT_NUMBERS) or not is_a(value, Integral):
        raise InvalidInput(field, value, "must be a string or a whole number")
    return whole(field, value)


def strings(field: str, value: Any) -> tuple[str, ...]:
    """`value`, a list or other iterable of strings, as a tuple; a set is sorted, to be the same in every run."""
    if is_a(value, str | bytes | Mapping):
        raise InvalidInput(field, value, "must be a list of strings")
    try:
        items = tuple(value)
    except TypeError:
        raise InvalidInput(field, value, "must be a list of strings") from None
    except Exception as error:
        raise refusal(field, value, error, lambda: tuple(value)) from error
    for item in items:
        if type(item) is not str or not item.isascii():
            break
    else:
        return tuple(sorted(items)) if is_a(value, set | frozenset) else items
    for item in items:
        if not is_a(item, str):
            raise InvalidInput(field, item, "must hold strings only")
    plain = tuple(string(field, item) for item in items)
    return tuple(sorted(plain)) if is_a(value, set | frozenset) else plain
