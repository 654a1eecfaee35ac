"""Changes are told in order, however an engine says them."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.broker.ordering import in_order
from nearcast.columns.message_table import MESSAGE
from nearcast.engines.contract import NO_CHANGES, Changes
from nearcast.model.kinds import Kind

N_MESSAGES = 8
ROWS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 4),
        st.integers(0, N_MESSAGES - 1),
        st.sampled_from([-1, 1]),
        st.sampled_from([0.0, -0.0, 0.25, 0.5, float("inf")]),
    ),
    max_size=60,
)


class Stored(NamedTuple):
    """All of a message table that counts here."""

    rows: Any

    @property
    def layout(self) -> Stored:
        return self


def stored() -> Any:
    rows = np.zeros(N_MESSAGES, dtype=MESSAGE)
    rows["sequence"] = [5, 2, 9, 1, 7, 3, 8, 4]
    return Stored(rows)


def changes_of(rows: list[tuple[int, int, int, int, float]]) -> Changes:
    columns = zip(*rows, strict=True) if rows else [()] * 5
    return Changes(*(np.array(column, dtype) for column, dtype in zip(columns, ("i4",) * 4 + ("f8",), strict=True)))


def ordered(kind: Kind, changes: Changes) -> Changes:
    """In order, where no subscription has scores that fade."""
    return in_order(kind, cast(Any, None), changes, stored(), 0)


def told(changes: Changes) -> list[tuple[Any, ...]]:
    return list(zip(*(column.tolist() for column in changes), strict=True))


@given(ROWS, st.sampled_from(["similar", "topk", "nearest", "within"]), st.booleans())
def test_minus_before_plus_best_first_then_newest(rows: list[Any], kind: str, together: bool) -> None:
    """Rows of several events, and of one, which a kernel of its own sorts."""
    if together:
        rows = [(2, *row[1:]) for row in rows]
    if kind == "within":
        rows = [(*row[:4], float("nan")) for row in rows]
    sequences = stored().rows["sequence"].tolist()
    better = {"within": 0, "nearest": -1}.get(kind, 1)

    def place(row: tuple[Any, ...]) -> tuple[Any, ...]:
        event, slot, message, sign, score = row
        return event, slot, sign, -better * score if better else 0, -sequences[message]

    expected = [place(row) for row in sorted(rows, key=place)]
    assert [place(row) for row in told(ordered(Kind.of(kind), changes_of(rows)))] == expected


@pytest.mark.parametrize("n", [0, 1])
def test_little_is_left_as_it_is(n: int) -> None:
    rows = [(0, 3, 2, 1, 0.5)][:n]
    assert told(ordered(Kind.TOPK, changes_of(rows))) == rows
    assert ordered(Kind.TOPK, NO_CHANGES) is NO_CHANGES
