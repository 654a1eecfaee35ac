"""Windows: what they take and what they refuse."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from nearcast.errors import InvalidInput
from nearcast.window.window import Window


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"count": 0}, "count must be a whole number >= 1, got 0"),
        ({"count": -3}, "count must be a whole number >= 1, got -3"),
        ({"count": True}, "count must be a whole number >= 1, got True"),
        ({"count": 5.0}, "count must be a whole number >= 1, got 5.0"),
        ({"count": "5"}, "count must be a whole number >= 1, got '5'"),
        ({"age": -1}, "age must be seconds or a timedelta, >= 0, got -1"),
        ({"age": True}, "age must be seconds or a timedelta, >= 0, got True"),
        ({"age": "1"}, "age must be seconds or a timedelta, >= 0, got '1'"),
        ({"age": float("nan")}, "age must be seconds or a timedelta, >= 0, got nan"),
        ({"age": float("inf")}, "age must be seconds or a timedelta, >= 0, got inf"),
        ({"age": [1]}, "age must be seconds or a timedelta, >= 0, got [1]"),
        ({"age": np.complex64(2)}, "age must be seconds or a timedelta, >= 0, got np.complex64(2+0j)"),
        ({"age": np.timedelta64(2, "s")}, "age must be seconds or a timedelta, >= 0, got np.timedelta64(2,'s')"),
        ({"max_ahead": Decimal(2)}, "max_ahead must be seconds or a timedelta, >= 0, got Decimal('2')"),
        ({"count": 10**31}, f"count must be <= {10**30}, got {10**31}"),
        ({"count": np.timedelta64(2, "s")}, "count must be a whole number >= 1, got np.timedelta64(2,'s')"),
        ({"age": 10**18}, "age must be seconds or a timedelta, >= 0, got 1000000000000000000"),
        ({"age": 0}, "age must be at least a millisecond, got 0"),
        ({"age": 0.0004}, "age must be at least a millisecond, got 0.0004"),
        ({"max_ahead": -0.5}, "max_ahead must be seconds or a timedelta, >= 0, got -0.5"),
        ({"max_ahead": False}, "max_ahead must be seconds or a timedelta, >= 0, got False"),
        ({"max_ahead": float("inf")}, "max_ahead must be seconds or a timedelta, >= 0, got inf"),
    ],
)
def test_windows_that_cannot_be(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Window(**given)
    assert str(refused.value) == reason
    assert refused.value.field == next(iter(given))


def test_windows_that_can_be() -> None:
    assert Window().age_ms == 2**62
    assert Window(age=1.5).age_ms == 1500
    assert Window(age=np.float32(2), count=np.int64(3)).age_ms == 2000
    assert Window(max_ahead=0).max_ahead == 0
    odd = Window(np.uint8(7), Fraction(3, 2), np.int16(4))
    assert (odd.count, odd.age, odd.max_ahead) == (7, 1.5, 4)
    assert [type(value) for value in (odd.count, odd.age, odd.max_ahead)] == [int, float, int]
