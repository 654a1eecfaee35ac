"""Asserts that the index agrees with itself and with the table of subscriptions."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs
from nearcast.columns.fields.conditions import NO_CONDITION
from nearcast.columns.subscription_tables import ENDED, PointLayout
from nearcast.columns.times import FOREVER
from nearcast.engines.similar.build import (
    INSIDE,
    LATER,
    OUTSIDE,
    PART_SHIFT,
    TERM_SHIFT,
    choose_leaves,
    find_list,
    least_bound,
    list_member,
)
from nearcast.engines.similar.layout import (
    ALIVE,
    ANYWHERE,
    ASKS,
    EITHER,
    ENDS,
    FARTHEST,
    LEAF_AXIS,
    LOCAL_MASK,
    MOST_RANKED,
    NEAR,
    NO_TERM,
    NOWHERE,
    RANK_SHIFT,
    TERM_MASK,
    BuildInput,
    StampLayout,
)
from nearcast.engines.similar.prefixes import Draft, new_draft, order_words
from nearcast.engines.similar.stamp_index import StampIndex
from nearcast.jit import allocating
from nearcast.space.distance import HAVERSINE, cos_lat, wrap
from nearcast.space.hilbert import to_point


def check_index(index: StampIndex, subscriptions: PointLayout, used: Ints, idf: Array) -> None:
    """Walk both trees and every leaf."""
    numbers = index.leaf_numbers
    _check_trees(index, numbers)
    _check_homes(index, subscriptions, used, idf)
    alive = [_check_leaf(index, int(number), subscriptions, idf) for number in numbers]
    for kind in (NEAR, ANYWHERE):
        slots = [
            some for number, some in zip(numbers, alive, strict=True) if index.layout.leaves["kind"][number] == kind
        ]
        assert np.unique(np.concatenate(slots)).size == sum(some.size for some in slots), "a member is filed twice"
    for name, pool in index.pools.items():
        rooms = np.sum(index.layout.leaves[f"{name}_room"][numbers], dtype=np.int64)
        assert pool.used == rooms + pool.dead, f"blocks of {name} rows are lost"


def _check_trees(index: StampIndex, numbers: Ints) -> None:
    nodes, leaves = index.layout.nodes, index.layout.leaves
    assert np.unique(numbers).size == numbers.size == index.n_leaves, "leaves are lost"
    stack, n_seen = [NEAR, ANYWHERE], 0
    assert nodes["parent"][NEAR] == nodes["parent"][ANYWHERE] == -1
    while stack:
        at = stack.pop()
        n_seen += 1
        node = nodes[at]
        if node["axis"] == LEAF_AXIS:
            assert leaves["node"][node["leaf"]] == at, "a leaf does not know its node"
            continue
        for child in (int(node["low"]), int(node["high"])):
            assert nodes["parent"][child] == at, "a child does not know its parent"
            assert nodes["least"][child] >= node["least"], "a bound is above one below it"
            if nodes["least"][child] < FARTHEST:
                assert all(nodes[side + "0"][child] >= node[side + "0"] for side in "xyz"), "a box is too small"
                assert all(nodes[side + "1"][child] <= node[side + "1"] for side in "xyz"), "a box is too small"
            stack.append(child)
    assert n_seen == index.n_nodes, "nodes are lost"


def _check_homes(index: StampIndex, subscriptions: PointLayout, used: Ints, idf: Array) -> None:
    """Is every subscription filed where it belongs, and nothing else filed?"""
    layout, leaves = index.layout, np.empty((2, used.size), np.int64)
    words = new_draft(int(subscriptions.rows["n_terms"][used].max(initial=0)), 0).words  # a check changes nothing
    choose_leaves(layout, used, index.build_input(subscriptions, idf), words, leaves)
    filed = np.zeros(layout.homes.size, dtype=bool)
    filed[used] = True
    for kind, name in ((NEAR, "near"), (ANYWHERE, "anywhere")):
        homes = layout.homes[name]
        assert np.all(homes[~filed] == NOWHERE), "a free slot is filed"
        assert np.array_equal(homes[used] != NOWHERE, leaves[kind] >= 0), (
            "a subscription is not filed where it should be"
        )
        for slot, home in zip(used.tolist(), homes[used].tolist(), strict=True):
            if home != NOWHERE:
                leaf = layout.leaves[home >> 16]
                member = layout.members[leaf["member_start"] + (home & LOCAL_MASK)]
                assert leaf["kind"] == kind, "filed in a leaf of the wrong kind"
                assert member["slot"] == slot, "a home is another's"
                assert member["state"] & ALIVE, "a home is a dead member's"


@allocating
def expected_entries(index: StampLayout, leaf_number: int, given: BuildInput, draft: Draft, bounds: Longs) -> Longs:
    """Sorted keys that the living members should have in lists; writes the smallest bound of each to `bounds`."""
    subscriptions, idf, space, flags = given
    leaf = index.leaves[leaf_number]
    n_keys = 0
    for local in range(leaf.n_members):
        member = index.members[leaf.member_start + local]
        if member.state & ALIVE == 0:
            continue
        row, scale = subscriptions.rows[member.slot], subscriptions.scales[member.slot]
        order_words(subscriptions.terms, row.term_start, row.n_terms, idf, row.mode, draft.words)
        bounds[local] = least_bound(draft.words, row, scale, leaf.kind, flags)
        if local < leaf.n_listed:
            n_keys = list_member(leaf, row, scale, np.int64(local), space, flags, draft, n_keys)
    return np.sort(draft.keys[:n_keys])


def _actual_entries(index: StampIndex, leaf: Any) -> Longs:
    """Keys of all entries of a leaf, as its lists have them."""
    layout = index.layout
    entries = layout.entries[leaf["entry_start"] : leaf["entry_start"] + leaf["n_entries"]].astype(np.int64)
    keys = np.full(entries.size, -1, np.int64)
    parts = [
        (0, 0, int(leaf["star_outside"]), OUTSIDE),
        (0, int(leaf["star_outside"]), int(leaf["star_inside"]), INSIDE),
    ]
    n_later = 0
    for at in range(int(leaf["list_start"]), int(leaf["list_start"] + leaf["n_lists"])):
        found = layout.lists[at]
        if found["term"] == NO_TERM:
            continue
        start, term = int(found["start"]), int(found["term"])
        assert at == find_list(layout.lists, leaf["list_start"], leaf["n_lists"], term), "a list cannot be found"
        for n, part in ((found["n_outside"], OUTSIDE), (found["n_inside"], INSIDE), (found["n_later"], LATER)):
            parts.append((term + 1, start, int(n), part))
            start += int(n)
        n_later += int(found["n_later"])
    assert n_later == leaf["n_later"]
    for term, start, n, part in parts:
        assert np.all(keys[start : start + n] == -1), "two lists share an entry"
        assert np.all(np.diff(entries[start : start + n]) > 0), "a list is not sorted"
        keys[start : start + n] = (term << TERM_SHIFT) + (part << PART_SHIFT) + entries[start : start + n]
    assert np.all(keys >= 0), "an entry is in no list"
    return keys


def _check_leaf(index: StampIndex, number: int, subscriptions: PointLayout, idf: Array) -> Ints:
    """Returns the slots of its living members."""
    layout = index.layout
    leaf = layout.leaves[number]
    node = layout.nodes[leaf["node"]]
    members = layout.members[leaf["member_start"] : leaf["member_start"] + leaf["n_members"]]
    alive = members["state"] & ALIVE != 0
    assert leaf["n_listed"] <= leaf["n_members"] <= leaf["member_room"]
    assert leaf["n_words"] <= leaf["word_room"]
    assert leaf["n_dead"] == np.count_nonzero(~alive), "dead members were not counted"
    assert np.all(np.diff(members["word_start"]) > 0) if members.size else leaf["n_words"] == 0
    slots: Ints = members["slot"][alive]
    rows = subscriptions.rows[slots]
    assert np.all(rows["expires"] != ENDED), "a free slot is a living member"
    n_words = np.diff(np.append(members["word_start"], leaf["n_words"]))
    assert np.array_equal(n_words[alive], rows["n_terms"])
    bounds = np.full(members.size, FARTHEST, np.int64)
    draft = new_draft(int(rows["n_terms"].max(initial=0)), int(rows["n_terms"].sum()) + rows.size)
    keys = expected_entries(layout, number, index.build_input(subscriptions, idf), draft, bounds)
    actual = np.sort(_actual_entries(index, leaf))
    assert np.array_equal(keys, actual[alive[actual & LOCAL_MASK]]), "entries differ from those of the subscriptions"
    assert node["least"] <= bounds.min(initial=FARTHEST), "a bound is too high"
    for member, row, scale in zip(members[alive], rows, subscriptions.scales[slots], strict=True):
        point = to_point(index.space.metric, row["x"], row["y"])
        for side, value in zip("xyz", point, strict=True):
            assert node[side + "0"] <= value <= node[side + "1"], "a place lies outside its box"
        assert (member["y"], member["delta"], member["weight"]) == (row["y"], scale["delta"], scale["weight"]), (
            "a member differs"
        )
        assert member["x"] == (wrap(row["x"]) if index.space.metric == HAVERSINE else row["x"]), "a place moved"
        cosine = cos_lat(row["y"]) if index.space.metric == HAVERSINE else 0.0
        assert member["cos_lat"] == cosine, "a place moved"
        assert member["tau"] == np.float32(scale["tau"]), "a threshold changed"
        assert bool(member["state"] & ENDS) == (row["expires"] != FOREVER), "whether it expires differs"
        assert bool(member["state"] & ASKS) == (row["condition"] != NO_CONDITION), "whether it has a condition differs"
        start = leaf["word_start"] + member["word_start"]
        packed = layout.terms[start : start + row["n_terms"]]
        words, ranks = packed & TERM_MASK, packed >> RANK_SHIFT
        own = subscriptions.terms[row["term_start"] : row["term_start"] + row["n_terms"]]
        assert np.array_equal(np.sort(words), np.sort(own)), "words differ"
        if words.size <= MOST_RANKED:
            assert np.array_equal(own[ranks], words), "a word has another's rank"
        assert np.all(np.diff(idf[words]) <= 0), "words are out of order"
    if leaf["kind"] == ANYWHERE and node["parent"] >= 0:
        assert layout.nodes["axis"][node["parent"]] == EITHER
    return slots
