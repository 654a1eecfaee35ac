"""The fields of a message: a flat mapping from names to numbers, strings, booleans and lists of strings, checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isnan
from numbers import Integral, Real
from typing import Any

import numpy as np

from nearcast.errors import InvalidInput
from nearcast.model.checks import is_a, refusal, string, strings

FieldValue = float | int | str | bool | tuple[str, ...]
Fields = dict[str, FieldValue]

LEAST_WHOLE, LARGEST_WHOLE = -(2**63), 2**64 - 1
_KINDS = "must be a number, a string, a boolean or a list of strings"
_ONE_LEVEL = "must be an object that maps names to numbers, strings, booleans or lists of strings"


def fields_of(given: Any) -> Fields:
    """Fields given as a mapping or as the JSON text of one; a value of None is a field that is not there.

    Raises
    ------
    InvalidInput
        For what is no mapping, for values of other types and for NaN; the field is ``fields`` or ``fields.name``.

    Examples
    --------
    >>> fields_of({"price": 12, "tags": ["new", "hot"], "colour": None})
    {'price': 12, 'tags': ('new', 'hot')}
    >>> fields_of('{"open": true}')
    {'open': True}
    >>> fields_of("null")
    {}
    """
    if is_a(given, str):
        given = _parsed(string("fields", given))
        if given is None:  # as JSON writes what is missing
            return {}
    if not is_a(given, Mapping):
        raise InvalidInput("fields", given, _ONE_LEVEL)
    try:
        items = list(given.items())
    except Exception as error:
        raise refusal("fields", given, error, lambda: list(given.items())) from error
    kept: Fields = {}
    for name, value in items:
        if not is_a(name, str):
            raise InvalidInput("fields", name, "must have strings as names")
        plain = string("fields", name)
        if value is not None:
            kept[plain] = field_value(f"fields.{plain}", value)
    return kept


def field_value(field: str, value: Any) -> FieldValue:
    """One value as it is kept: a bool, an int of at most 64 bits, a float, a str or a tuple of str."""
    if type(value) is str:
        return string(field, value)
    if is_a(value, bool | np.bool_):
        return bool(value)
    if is_a(value, str):
        return string(field, value)
    if is_a(value, Integral) and not is_a(value, np.timedelta64):
        return _whole(field, value)
    if is_a(value, Real) and not is_a(value, np.timedelta64):
        return _number(field, value)
    if not is_a(value, list | tuple | set | frozenset | np.ndarray):
        raise InvalidInput(field, value, _KINDS)
    return strings(field, value)


def _whole(field: str, value: Any) -> int:
    try:
        plain = int(value)
    except Exception as error:
        raise refusal(field, value, error, lambda: int(value)) from error
    if not LEAST_WHOLE <= plain <= LARGEST_WHOLE:
        raise InvalidInput(field, value, "must be a whole number of at most 64 bits")
    return plain


def _number(field: str, value: Any) -> float:
    try:
        plain = float(value)
    except Exception as error:
        raise refusal(field, value, error, lambda: float(value)) from error
    if isnan(plain):
        raise InvalidInput(field, value, "must not be NaN")
    return plain


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInput("fields", text, "must be valid JSON") from None
