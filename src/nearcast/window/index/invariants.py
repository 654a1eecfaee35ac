"""Asserts that the message index agrees with itself and with the messages."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Ints
from nearcast.columns.message_table import MessageLayout
from nearcast.space.distance import HAVERSINE, wrap
from nearcast.space.hilbert import to_point
from nearcast.window.index.segments import (
    FAN,
    FAN_BITS,
    LEAF_BITS,
    NO_TERM,
    IndexLayout,
    first_node,
    leaf_depth,
    mark_of,
    n_boxes,
    nodes_at,
)


def check_index(index: IndexLayout, messages: MessageLayout) -> None:
    """Walk every segment. Dead messages are checked as far as the index alone knows them."""
    sequences = [index.recent["sequence"]]
    for segment in index.segments[::-1]:
        sequences.insert(0, np.sort(_part(index.members, segment, "member")["sequence"]))
        _check_members(index, segment, messages)
        _check_lists(index, segment, messages)
    assert np.all(np.diff(np.concatenate(sequences)) > 0), "segments overlap in time"


def _part(pool: Array, segment: Any, name: str) -> Array:
    start, n = int(segment[f"{name}_start"]), int(segment["n_boxes" if name == "box" else f"n_{name}s"])
    assert 0 <= start <= start + n <= pool.size, f"{name} range outside of its pool"
    return pool[start : start + n]


def _alive(members: Array, messages: MessageLayout) -> Ints:
    """Ranks of the members whose slots still hold them."""
    return np.flatnonzero(messages.rows["sequence"][members["slot"]] == members["sequence"]).astype(np.int32)


def _check_members(index: IndexLayout, segment: Any, messages: MessageLayout) -> None:
    members, boxes = _part(index.members, segment, "member"), _part(index.boxes, segment, "box")
    times = _part(index.times, segment, "box")
    assert segment["depth"] == leaf_depth(members.size)
    assert boxes.size == n_boxes(members.size)
    assert np.all(np.diff(members["code"]) >= 0), "members do not follow the curve"
    assert segment["first_sequence"] == members["sequence"].min()
    assert segment["last_sequence"] == members["sequence"].max()
    assert 2 * np.count_nonzero(members["sequence"] <= segment["mid_sequence"]) >= members.size
    for rank in _alive(members, messages):
        row, member = messages.rows[members["slot"][rank]], members[rank]
        assert (member["x"], member["y"], member["z"]) == to_point(index.metric, row["x"], row["y"])
        words = messages.terms[row["term_start"] : row["term_start"] + row["n_terms"]]
        marks = np.array([mark_of(word) for word in words], dtype=np.int64)
        assert member["marks"] == np.bitwise_or.reduce(marks), "marks of other words"
        assert segment["first_expiry"] <= row["expires_at"] <= segment["last_expiry"]
        x = wrap(row["x"]) if index.metric == HAVERSINE else row["x"]
        node = first_node(int(segment["depth"])) + (int(rank) >> LEAF_BITS)
        while node >= 0:
            box = boxes[node]
            assert row["ts"] <= times[node], "newer than its node"
            assert all(box[f"{axis}0"] <= member[axis] <= box[f"{axis}1"] for axis in "xyz"), "point outside of its box"
            assert box["west"] <= x <= box["east"], "longitude outside of its box"
            assert box["south"] <= row["y"] <= box["north"], "latitude outside of its box"
            node = (node - 1) >> FAN_BITS


def _check_lists(index: IndexLayout, segment: Any, messages: MessageLayout) -> None:
    members, postings = _part(index.members, segment, "member"), _part(index.postings, segment, "posting")
    lists = _part(index.lists, segment, "list")
    lists = lists[lists["term"] != NO_TERM]
    assert np.unique(lists["term"]).size == lists.size, "a term has two lists"
    assert lists["n"].sum() == postings.size
    alive = set(_alive(members, messages).tolist())
    n_alive = 0
    for found in lists:
        own = postings[found["start"] : found["start"] + found["n"]]
        assert np.all(np.diff(own["rank"]) > 0), "postings out of order"
        assert found["top"] == own["unit"].max()
        _check_skips(index, segment, found, own)
        for rank in own["rank"].tolist():
            if rank in alive:
                row = messages.rows[members["slot"][rank]]
                assert found["term"] in messages.terms[row["term_start"] : row["term_start"] + row["n_terms"]]
                n_alive += 1
    assert n_alive == sum(int(messages.rows["n_terms"][members["slot"][rank]]) for rank in alive), (
        "postings are missing"
    )


def _check_skips(index: IndexLayout, segment: Any, found: Any, postings: Array) -> None:
    skips = _part(index.skips, segment, "skip")
    for depth in range(1, int(found["depth"]) + 1):
        bits = LEAF_BITS + FAN_BITS * (int(segment["depth"]) - depth)
        nodes = postings["rank"] >> bits
        n_nodes = (
            FAN**depth if depth < found["depth"] else nodes_at(int(segment["n_members"]), int(segment["depth"]), depth)
        )
        at = found["skip"] + first_node(depth) - 1
        for node, skip in enumerate(skips[at : at + n_nodes]):
            start, end = np.searchsorted(nodes, [node, node + 1])
            assert (skip["start"], skip["end"]) == (found["start"] + start, found["start"] + end), (
                "skip to a wrong place"
            )
            assert skip["top"] == postings["unit"][start:end].max(initial=0)
