"""Blocks of leaves: codes keep the order of coordinates, and entries that come and go stay where they belong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast import Box, Broker, Message, Space, Within
from nearcast.engines.oracle import WithinOracle
from nearcast.engines.within.layout import BLOCK_SHAPE, N_ALONE, N_HASHED, N_ROWS, NOTHING
from nearcast.engines.within.leaf_block import LAST_CODE, code_of, is_ranged, lines_for, rows_in_lines
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
@pytest.mark.parametrize("ranged", [False, True])
def test_a_block_has_room_for_what_it_was_made_for(n_rows, ranged):
    n_lines = lines_for(n_rows, ranged)
    assert rows_in_lines(n_lines, ranged) >= n_rows
    assert n_lines == 1 or rows_in_lines(n_lines - 1, ranged) < n_rows


def block_of_root(broker, names=(N_ALONE, N_HASHED, N_ROWS)):
    """What the header says of the only leaf of a small tree, after its arrays were checked."""
    engine = broker.parts.engines[Kind.WITHIN]
    engine.check()
    layout = engine.tree.layout
    assert layout.parts["child"][0] < NOTHING
    start = 16 * int(layout.parts["start"][0])
    return [int(layout.ints[start + at]) for at in names]


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


PLANE = Space((0, 0, 10, 10), metric="euclidean")
RANGES = ("price >= 5 AND price < 9", "price < 7", "price > 1e300", "price > 9 AND price < 3", "price >= 0")


def filed(wheres):
    """A broker with one box for each of these conditions, all filed at once."""
    broker = Broker(PLANE)
    broker.subscribe_many([(i, Within(Box(0, 0, 5, 5), "tea", where=where)) for i, where in enumerate(wheres)])
    return broker


def told_and_right(broker, messages):
    """The updates for messages, and those of the brute force in the same broker."""
    told = [(u.subscription, u.message) for u in broker.publish(messages)]
    own = broker.parts.engines[Kind.WITHIN]
    broker.parts.engines[Kind.WITHIN] = WithinOracle(broker.parts.tables[Kind.WITHIN], broker.parts.context)
    right = [(u.subscription, u.message) for u in broker.publish(messages)]
    broker.parts.engines[Kind.WITHIN] = own
    return told, right


def test_ranges_of_a_number_decide_where_most_ask_for_them():
    wheres = [*RANGES, "price != 6 AND price > 2", "kind = 'a'", None]
    broker = filed(wheres)
    n_alone, n_hashed, n_rows, shape = block_of_root(broker, (N_ALONE, N_HASHED, N_ROWS, BLOCK_SHAPE))
    assert is_ranged(shape)
    assert (n_alone, n_hashed, n_rows) == (6, 2, 8)  # the five ranges, and the one without a condition
    values = [0, -0.0, 5e-324, 4.9999999999, 5, 5.0000000001, 6, 6.5, 7, 9, 2**53 + 1, -1e308, 1e301, float("inf")]
    fields = [{"price": value} for value in values]
    fields += [{"price": "6"}, {"price": True}, {"price": ["6"]}, {"kind": "a"}, {}, {"price": 6, "kind": "a"}]
    messages = [Message(i, 2.5, 2.5, "tea", fields=given) for i, given in enumerate(fields)]
    told, right = told_and_right(broker, messages)
    assert sorted(told) == sorted(right)
    assert len(right) > 40


def test_blocks_of_ranges_grow_and_shrink():
    broker = filed(RANGES)
    for i in range(30):  # outside of the frame of numbers, too
        broker.subscribe(100 + i, Within(Box(i / 20, 0, 6, 6), "tea", where=f"price > {3 - i} AND price < {8 * i}"))
    n_rows, shape = block_of_root(broker, (N_ROWS, BLOCK_SHAPE))
    assert n_rows == 35
    assert is_ranged(shape)
    for i in range(0, 30, 2):
        broker.unsubscribe(100 + i)
        broker.move(101 + i, region=Box(0, 0, 5, 5 + i / 10))
    block_of_root(broker)
    messages = [Message(i, i % 5, 5, "tea", fields={"price": i * i / 9}) for i in range(60)]
    told, right = told_and_right(broker, [*messages, Message(60, 1, 1, "tea")])
    assert sorted(told) == sorted(right)
