"""Assertions on a whole tree, for tests: what every kernel must keep."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from nearcast.engines.within.ap_tree import ApTree
from nearcast.engines.within.arrays import class_room
from nearcast.engines.within.descend import CHUNK, DescentInput, find_leaves, grown_frontier, new_frontier, with_terms
from nearcast.engines.within.layout import KEYWORD, LISTED_ROWS, N_LEAVES, NO_NODE, NOTHING, ROOT
from nearcast.engines.within.moving.leaf_messages import is_still_live, known_since
from nearcast.engines.within.paths import trace
from nearcast.jit import NEED_ROOM


def check_tree(tree: ApTree) -> None:
    """Assert that every entry stands exactly where it belongs, and that weights and links are right."""
    layout, table = tree.layout, tree.table
    held: dict[int, set[tuple[int, int]]] = {}  # by part of a leaf: (slot, tags) of its entries
    weights: dict[int, int] = {}
    todo = [(ROOT, NO_NODE)]
    while todo:
        part, owner = todo.pop()
        row = layout.parts[part]
        assert row["node"] == owner, "a part knows its node"
        weights[part] = int(row["now"])
        child = int(row["child"])
        if child >= 0:
            node = layout.nodes[child]
            assert node["part"] == part, "a node knows where it hangs"
            if node["kind"] == KEYWORD:
                highs = layout.highs[node["first"] + 1 : node["first"] + 1 + node["n_parts"]]
                assert (np.diff(highs.astype(np.int64)) > 0).all(), "cuts are in order"
            todo.extend((int(node["first"]) + i, child) for i in range(node["n_parts"] + 1))
        elif child != NOTHING:
            leaf = layout.leaves[-2 - child]
            assert leaf["part"] == part, "a leaf knows where it hangs"
            assert row["now"] <= class_room(int(leaf["room"])), "a leaf has room for its entries"
            rows = layout.held[row["start"] : row["start"] + row["now"]]
            held[part] = set(zip(rows["slot"].tolist(), rows["tags"].tolist(), strict=True))
            assert len(held[part]) == row["now"], "an entry stands once in a leaf"
        else:
            assert row["now"] == 0, "what is empty weighs nothing"
    _check_entries(tree, held, weights)
    assert weights[ROOT] == tree.n_entries
    assert len(table) <= tree.n_entries


def _check_entries(tree: ApTree, held: dict[int, set[tuple[int, int]]], weights: dict[int, int]) -> None:
    layout, slots = tree.layout, tree.table.used_slots
    entries = tree.order.entries(tree.table, tree.table.rows[slots], slots)
    path, ranks = np.zeros(1 << 16, np.int32), np.zeros(1 << 16, np.int32)
    found: dict[int, set[tuple[int, int]]] = {part: set() for part in held}
    counts = dict.fromkeys(weights, 0)
    for entry in entries:
        n = trace(layout, tree.order.ranks, entry, ROOT, path, ranks)
        for part, rank in zip(path[:n].tolist(), ranks[:n].tolist(), strict=True):
            counts[part] += 1
            if part in found:
                found[part].add((int(entry["slot"]), int(entry["tags"])))
            own = layout.parts[part]
            if own["node"] != NO_NODE and part > layout.nodes["first"][own["node"]]:
                assert layout.nodes["kind"][own["node"]] != KEYWORD or own["low"] <= rank <= own["high"]
    assert found == held, "every entry stands in all leaves where it belongs, and nowhere else"
    assert counts == weights, "the weight of a part is the number of entries below it"


def check_lists(tree: ApTree) -> None:
    """Assert that every list has all live messages that it claims to have, and that its range is its own."""
    if tree.lists is None:
        return
    layout, context = tree.layout, tree.context
    messages, live = context.live.table.layout, tree.lists.live_bounds
    tree.order.ensure_terms(context.vocabulary.capacity)
    listed: dict[int, set[int]] = {}
    n_rows, taken = 0, []
    for leaf in range(layout.heads[N_LEAVES]):
        row = layout.leaves[leaf]
        if not 0 <= row["part"] < layout.parts.size or layout.parts["child"][row["part"]] != -2 - leaf:
            continue
        n_rows += int(row["n_messages"])
        if row["message_room"] != NOTHING:
            start, n = int(row["message_start"]), int(class_room(int(row["message_room"])))
            assert row["n_messages"] <= n, "a list has room for its messages"
            taken.append((start, start + n))
        rows = layout.listed[row["message_start"] : row["message_start"] + row["n_messages"]]
        alive = [place["slot"] for place in rows if is_still_live(messages.rows, place["slot"], place["mark"], live)]
        assert len(set(alive)) == len(alive), "a message is listed once"
        listed[int(row["part"])] = set(alive)
    assert n_rows == layout.heads[LISTED_ROWS]
    taken.sort()
    assert all(end <= start for (_, end), (start, _) in pairwise(taken)), "ranges do not overlap"
    frontier = with_terms(new_frontier(), tree.order.ranks.size)
    slots = context.live.table.live_slots
    ranks, metric = tree.order.ranks, context.space.metric_code
    expanded, own = context.live.table.with_patterns(slots)
    descent = DescentInput(own, expanded, ranks, metric, slots, messages.rows)
    for first in range(0, slots.size, CHUNK):
        while (n := find_leaves(layout, descent, first, min(first + CHUNK, slots.size), ROOT, frontier)) == NEED_ROOM:
            frontier = grown_frontier(frontier)
        for leaf in frontier.leaves[: frontier.leaf_start[n]]:
            slot, part = int(slots[frontier.probes["event"][leaf["probe"]]]), int(leaf["part"])
            known = slot in listed[part] or messages.rows["sequence"][slot] <= known_since(layout, part)
            assert known, "a message is missing"
    assert tree.lists.oldest <= int(messages.rows["sequence"][slots].min(initial=2**62))
