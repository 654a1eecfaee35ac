"""Blocks of leaves: codes keep the order of coordinates, and entries that come and go stay where they belong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast import Box, Broker, Message, Space, Within
from nearcast.engines.within.layout import N_ALONE, N_HASHED, N_ROWS, NOTHING
from nearcast.engines.within.leaf_block import LAST_CODE, code_of, lines_for, rows_in_lines
from nearcast.model.kinds import Kind

COORDINATES = st.one_of(
    st.sampled_from([-np.inf, -3e38, -1.0, -0.0, 0.0, 1e-30, 1.0, 3e38, np.inf]), st.floats(-1000, 1000, width=32)
)


@given(COORDINATES, COORDINATES, st.floats(-1000, 1000, width=32), st.floats(2.0**-90, 2.0**90, width=32))
def test_codes_keep_the_order_of_coordinates(one, other, origin, scale):
    low, high = sorted((one, other))
    codes = [code_of(np.float32(value), np.float32(origin), np.float32(scale)) for value in (low, high)]
    assert 0 <= codes[0] <= codes[1] <= LAST_CODE


@pytest.mark.parametrize("n_rows", [1, 2, 3, 4, 10, 11, 40, 1000])
def test_a_block_has_room_for_what_it_was_made_for(n_rows):
    n_lines = lines_for(n_rows)
    assert rows_in_lines(n_lines) >= n_rows
    assert n_lines == 1 or rows_in_lines(n_lines - 1) < n_rows


def block_of_root(broker):
    """Counts in the only leaf of a small tree, after its arrays were checked."""
    engine = broker.parts.engines[Kind.WITHIN]
    engine.check()
    layout = engine.tree.layout
    assert layout.parts["child"][0] < NOTHING
    start = 16 * int(layout.parts["start"][0])
    return [int(layout.ints[start + at]) for at in (N_ALONE, N_HASHED, N_ROWS)]


def test_groups_of_a_block_follow_what_subscriptions_ask_for():
    broker = Broker(Space((0, 0, 10, 10), metric="euclidean"))
    region = Box(0, 0, 5, 5)
    asked = {"a": "tea", "b": "tea", "c": "cake", "d": "tea cake", "e": "tea AND NOT cake", "f": "tea OR cake"}
    for name, expression in asked.items():
        broker.subscribe(name, Within(region, expression))
    assert block_of_root(broker) == [2, 3, 7]
    broker.move("a", region=Box(2, 2, 8, 8))
    broker.unsubscribe("b")
    broker.unsubscribe("e")
    assert block_of_root(broker) == [1, 2, 5]
    told = broker.publish([Message(1, 6, 6, "tea cake"), Message(2, 5, 5, "cake"), Message(3, 5, 5, "tea and cake")])
    assert sorted((update.message, update.subscription) for update in told) == [
        (1, "a"), (2, "c"), (2, "f"), (3, "a"), (3, "c"), (3, "d"), (3, "f"),
    ]  # fmt: skip
