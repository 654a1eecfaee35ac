"""Values that nobody should give and somebody will: wrong types, wrong ranges, objects that raise when looked at."""

from __future__ import annotations

import datetime
import decimal
import fractions
import itertools
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa


class Raises(Exception):
    """What the objects below raise."""


def _raise(*_: Any, **__: Any) -> Any:
    raise Raises


class Untouchable:
    """Raises whatever is asked of it."""

    __eq__ = __hash__ = __float__ = __int__ = __index__ = __iter__ = __len__ = __getitem__ = __bool__ = _raise  # type: ignore[assignment]
    __lt__ = __gt__ = __le__ = __ge__ = __str__ = __repr__ = __contains__ = __getattr__ = _raise  # type: ignore[assignment]


class Classless(Untouchable):
    """Does not even tell its class."""

    __class__ = property(_raise)  # type: ignore[assignment]


class OddInt(int):
    """An int that cannot be compared, shown or made plain."""

    __eq__ = __hash__ = __lt__ = __gt__ = __le__ = __ge__ = __int__ = __float__ = __repr__ = __str__ = _raise  # type: ignore[assignment]


class OddFloat(float):
    """A float that cannot be compared, shown or made plain."""

    __eq__ = __hash__ = __lt__ = __gt__ = __le__ = __ge__ = __float__ = __repr__ = __str__ = _raise  # type: ignore[assignment]


class OddString(str):
    """A string that cannot be compared, shown or asked for anything."""

    __eq__ = __hash__ = __len__ = __iter__ = __repr__ = __str__ = _raise  # type: ignore[assignment]
    isascii = encode = casefold = lower = split = _raise


class LastingRepr:
    """Shown by a string that is none of the usual."""

    def __repr__(self) -> str:
        return OddString("shown")


class BrokenMapping(Mapping[str, Any]):
    """A mapping of which one method raises."""

    def __init__(self, values: Mapping[str, Any], broken: str, error: type[BaseException] = Raises) -> None:
        self._values = values
        self._broken = broken
        self._error = error

    def _touch(self, method: str) -> None:
        if method == self._broken:
            raise self._error(method)

    def __getitem__(self, name: str) -> Any:
        self._touch("getitem")
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        self._touch("iter")
        return iter(self._values)

    def __len__(self) -> int:
        self._touch("len")
        return len(self._values)

    def keys(self) -> Any:
        self._touch("keys")
        return super().keys()

    def items(self) -> Any:
        self._touch("items")
        return super().items()

    def __repr__(self) -> str:
        self._touch("repr")
        return "BrokenMapping"


def broken_off(*values: Any) -> Iterator[Any]:
    """These values, then an exception."""
    yield from values
    raise Raises


def odd_values() -> list[Any]:
    """One of each; fresh, since iterators are used up."""
    plain = [None, True, False, 0, 1, -1, 2**31, 2**53 + 1, 2**62, -(2**63), 2**63, 2**70, 10**400, -(10**5000)]
    plain += [0.0, -0.0, 0.5, 1.0, 1e308, 5e-324, float("nan"), float("inf"), -float("inf"), 1j, complex(1, 0)]
    plain += [
        "",
        " ",
        "a",
        "fire",
        "\x00",
        "\ud800",
        "\U0010ffff",
        "a" * 5000,
        "AND",
        "(",
        "ᾳ\u0308",
        b"",
        b"fire",
        b"\xff",
    ]
    plain += [bytearray(b"a"), memoryview(b"a"), (), [], {}, set(), (1,), [None], [1], ["a"], ["a", 1], ["a", "\ud800"]]
    plain += [{"a"}, frozenset({"b"}), {"a": 1}, {1: 2}, {None: None}, range(3), [[]], [[0, 0], [1, 1]], [0, 0, 1, 1]]
    plain += [[0.0, 0.0, float("nan"), 1.0], [[["a"]]], object(), object, type, len, ..., NotImplemented, iter("ab")]
    plain += [decimal.Decimal("1.5"), decimal.Decimal("sNaN"), fractions.Fraction(1, 3), fractions.Fraction(10**400)]
    plain += [datetime.datetime(2020, 1, 1), datetime.date(1, 1, 1), datetime.timedelta(1), uuid.UUID(int=0)]
    numpy = [np.bool_(True), np.int8(1), np.uint64(2**64 - 1), np.int64(-(2**63)), np.float16(1), np.float32("nan")]
    numpy += [np.longdouble(2), np.longdouble("inf"), np.complex64(2), np.str_("fire"), np.bytes_(b"a"), np.void(b"ab")]
    numpy += [
        np.datetime64("2020-01-01"),
        np.datetime64("NaT", "s"),
        np.timedelta64(2, "s"),
        np.timedelta64("NaT", "s"),
    ]
    numpy += [
        np.timedelta64(3, "D"),
        np.array(1.0),
        np.array("a"),
        np.array([]),
        np.array([1.0, 2.0]),
        np.array(["a", "b"]),
    ]
    numpy += [np.array([object()]), np.zeros((2, 2)), np.ma.masked]
    arrow = [pa.scalar(1), pa.scalar("a"), pa.scalar(None), pa.scalar([1]), pa.array([1]), pa.array(["a"]), pa.nulls(2)]
    arrow += [pa.table({"a": [1]}), pa.chunked_array([], pa.string()), pa.schema([]), pa.int8()]
    hostile = [Untouchable(), Classless(), OddInt(1), OddFloat(1), OddString("a"), LastingRepr(), Raises, Raises()]
    hostile += [
        [Untouchable()],
        [OddString("fire")],
        (OddInt(1), OddInt(2)),
        [Classless()],
        broken_off("a"),
        broken_off(),
    ]
    hostile += [
        {"id": Untouchable()},
        [[OddFloat(0), OddFloat(1)], [1, Untouchable()], [2, 2]],
        itertools.islice("ab", 1),
    ]
    broken = ("getitem", "iter", "len", "keys", "items", "repr")
    hostile += [BrokenMapping({"type": "Circle", "coordinates": [0, 0], "radius": 1}, name) for name in broken]
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    return [*plain, *numpy, *arrow, *hostile, deep]
