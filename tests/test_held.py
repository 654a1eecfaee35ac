"""What is held enters kernels as it is now, whatever was exchanged in it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from nearcast.columns.arena import Array, Floats, Ints, record
from nearcast.held import Held, HeldCall, opened
from nearcast.jit import allocating, kernel

ROW = record(("at", "i8"), ("share", "f8"))


class Inner(NamedTuple):
    flag: bool
    table: Floats  # float64[n, m]
    rows: Array  # ROW[]


class Outer(NamedTuple):
    number: int
    inner: Inner
    other: bool
    bounds: tuple[float, float, float]
    slots: Ints
    share: float


@kernel
def total(held: Any, more: float) -> float:
    """A sum over everything that is held."""
    outer = opened(held)
    n = outer.number + outer.share + more + outer.bounds[0] + outer.bounds[2]
    n += 1000.0 * outer.inner.flag + 2000.0 * outer.other
    for row in range(outer.inner.table.shape[0]):
        for column in range(outer.inner.table.shape[1]):
            n += (row + 1) * outer.inner.table[row, column]
    for row in range(outer.inner.rows.size):
        n += outer.inner.rows[row].at + outer.inner.rows[row].share
    for slot in outer.slots:
        n += slot
    return n


@kernel
def write(held: Any, at: int) -> None:
    """Write to an array that is held."""
    opened(held).slots[at] = -7


@allocating
def part_of(held: Any, n: int) -> int:
    """The sum of the first slots, by a kernel that counts references."""
    slots = opened(held).slots[:n]
    return np.append(slots, np.zeros(1, np.int32)).sum()


def outer(seed: int) -> Outer:
    rng = np.random.default_rng(seed)
    rows = np.zeros(seed, ROW)
    rows["at"], rows["share"] = rng.integers(0, 9, seed), rng.random(seed)
    inner = Inner(bool(seed % 2), rng.random((2, seed)), rows)
    return Outer(seed, inner, not seed % 2, (1.5, 2.5, -3.5), rng.integers(0, 99, seed).astype(np.int32), 0.25 * seed)


def right(of: Outer) -> float:
    weighed = (of.inner.table * [[1.0], [2.0]]).sum() + of.inner.rows["at"].sum() + of.inner.rows["share"].sum()
    return float(of.number + of.share + 1000 * of.inner.flag + 2000 * of.other + weighed + of.slots.sum() - 2.0)


def test_what_is_held_is_seen() -> None:
    first = outer(3)
    held = Held(first)
    assert total(held, 0.5) == pytest.approx(right(first) + 0.5)
    for seed in (3, 8, 1, 5):
        whole = outer(seed)
        held.hold(whole)
        assert total(held, 0.0) == pytest.approx(right(whole))
        part = whole._replace(inner=whole.inner._replace(rows=outer(4).inner.rows), slots=outer(9).slots)
        held.hold(part)
        assert total(held, 0.0) == pytest.approx(right(part))


def test_arrays_are_shared_both_ways() -> None:
    whole = outer(4)
    held = Held(whole)
    write(held, 2)
    assert whole.slots[2] == -7
    whole.slots[:] = 1
    assert total(held, 0.0) == pytest.approx(right(whole))
    assert part_of(held, 3) == 3


def test_a_call_holds_what_it_is_given() -> None:
    call: HeldCall[Outer] = HeldCall(total)
    for seed in (6, 2, 6):
        assert call(outer(seed), 0.0) == pytest.approx(right(outer(seed)))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"slots": np.zeros(2, np.int64)}, "an array of another type"),
        ({"slots": np.zeros(4, np.int32)[::2]}, "an array that is not in one piece"),
        ({"share": 1}, "a number of another type"),
    ],
)
def test_other_types_are_refused(change: dict[str, Any], says: str) -> None:
    held = Held(outer(2))
    with pytest.raises(AssertionError, match=says):
        held.hold(outer(2)._replace(**change))
