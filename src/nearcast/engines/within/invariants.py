"""Assertions on a whole tree, for tests: what every kernel must keep."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from nearcast.columns.arena import Array
from nearcast.engines.within.ap_tree import ApTree
from nearcast.engines.within.arrays import class_room
from nearcast.engines.within.descend import CHUNK, DescentInput, find_leaves, grown_frontier, new_frontier, with_terms
from nearcast.engines.within.entries import find_entry, write_pairs
from nearcast.engines.within.layout import (
    BLOCK_SHAPE,
    BLOCK_WORD,
    CLAUSE,
    ENTRY,
    FIELD,
    HEADER,
    INTS_PER_LINE,
    KEYWORD,
    LISTED_ROWS,
    LOW_ORIGIN,
    LOW_SCALE,
    MANY,
    N_ALONE,
    N_HASHED,
    N_LEAVES,
    N_ROWS,
    NO_NODE,
    NO_WORD,
    NOTHING,
    ROOT,
    X_ORIGIN,
    X_SCALE,
    Y_ORIGIN,
    Y_SCALE,
)
from nearcast.engines.within.leaf_block import (
    LAST_CODE,
    can_decide_alone,
    clause_at,
    code_of,
    field_at,
    first_byte,
    hash_of,
    is_ranged,
    n_codes_of,
    room_of,
    rows_in_lines,
)
from nearcast.engines.within.moving.leaf_messages import is_still_live, known_since
from nearcast.engines.within.paths import trace
from nearcast.jit import NEED_ROOM

_SIDES = (("x0", X_ORIGIN, X_SCALE), ("y0", Y_ORIGIN, Y_SCALE), ("x1", X_ORIGIN, X_SCALE), ("y1", Y_ORIGIN, Y_SCALE))


def check_tree(tree: ApTree) -> None:
    """Assert that every entry stands exactly where it belongs, and that weights and links are right."""
    layout, table = tree.layout, tree.table
    held: dict[int, set[tuple[int, int]]] = {}  # by part of a leaf: (slot, clause) of its entries
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
            has_dummy = layout.parts["child"][node["first"]] != NOTHING
            assert node["has_dummy"] == has_dummy, "a node knows whether something hangs below its dummy part"
            if node["kind"] == KEYWORD:
                highs = layout.highs[node["first"] + 1 : node["first"] + 1 + node["n_parts"]]
                assert (np.diff(highs.astype(np.int64)) > 0).all(), "cuts are in order"
            todo.extend((int(node["first"]) + i, child) for i in range(node["n_parts"] + 1))
        elif child != NOTHING:
            leaf = layout.leaves[-2 - child]
            assert leaf["part"] == part, "a leaf knows where it hangs"
            block = INTS_PER_LINE * int(row["start"])
            _check_block(tree, block, int(leaf["room"]))
            assert layout.ints[block + N_ROWS] == row["now"], "a block knows how many entries it has"
            slots = layout.ints[block + HEADER : block + HEADER + row["now"]].tolist()
            held[part] = {(slot, int(clause_at(layout, block, i))) for i, slot in enumerate(slots)}
            assert len(held[part]) == row["now"], "an entry stands once in a leaf"
        else:
            assert row["now"] == 0, "what is empty weighs nothing"
    _check_entries(tree, held, weights)
    assert weights[ROOT] == tree.n_entries
    assert len(table) <= tree.n_entries


def _check_block(tree: ApTree, block: int, size_class: int) -> None:
    """Assert that a block has its size, and that what it says of every entry may only be too much."""
    layout, table = tree.layout, tree.table.layout
    ints, floats, n = layout.ints, layout.floats, int(layout.ints[block + N_ROWS])
    shape = int(ints[block + BLOCK_SHAPE])
    room, ranged, at = int(room_of(shape)), bool(is_ranged(shape)), int(field_at(ints, block))
    assert room == rows_in_lines(class_room(size_class), ranged) >= n, "a block has room for its entries"
    n_alone, n_hashed = int(ints[block + N_ALONE]), int(ints[block + N_HASHED])
    assert 0 <= n_alone <= n_alone + n_hashed <= n
    n_codes = int(n_codes_of(shape))
    codes = layout.bytes[first_byte(ints, block) :][: n_codes * room].reshape(n_codes, room)
    entry = np.zeros(1, ENTRY)[0]
    for i in range(n):
        find_entry(table, ints[block + HEADER + i], clause_at(layout, block, i), tree.order.ranks, entry)
        for side, (name, origin, scale) in enumerate(_SIDES):
            code = code_of(entry[name], floats[block + origin], floats[block + scale])
            assert codes[side, i] == code, "codes are those of the box"
            past = code == (0 if side < 2 else LAST_CODE)
            assert not past or ints[block + BLOCK_SHAPE] >> side & 1, "a block knows that a box is past its frame"
        in_range = ranged and entry["field"] == ints[at + FIELD]
        for row, name in ((5, "low"), (6, "high")) if in_range else ():
            code = code_of(entry[name], floats[at + LOW_ORIGIN], floats[at + LOW_SCALE])
            assert codes[row, i] == code, "codes are those of the range"
        assert in_range or not ranged or codes[5:, i].tolist() == [0, LAST_CODE], "who has no range meets all numbers"
        words = {int(entry[name]) for name in ("word0", "word1", "word2", "word3")} - {NO_WORD}
        if i < n_alone:
            assert can_decide_alone(entry["tags"], in_range), "who decides alone may"
            assert words == {int(ints[block + BLOCK_WORD])}, "who decides alone has the word of the block"
        elif i < n_alone + n_hashed:
            assert not entry["tags"] & MANY, "one of several clauses has a number, and no hash"
            assert codes[4, i] in map(hash_of, words), "the hash is that of a word"
        else:
            assert entry["tags"] & MANY, "only clauses of several have numbers"


def _check_pairs(tree: ApTree, entries: Array) -> None:
    """Assert that the tree knows of every subscription whether two words decide, in whatever order."""
    pairs, of_slots = np.zeros_like(tree.pairs), entries["slot"]
    write_pairs(entries, pairs)
    of_both = 2 * of_slots[:, None] + [0, 1]  # there may be room for half of one more
    assert (np.sort(tree.pairs[of_both]) == np.sort(pairs[of_both])).all(), "few words decide where they may"


def _check_entries(tree: ApTree, held: dict[int, set[tuple[int, int]]], weights: dict[int, int]) -> None:
    layout, slots = tree.layout, tree.table.used_slots
    entries = tree.order.entries(tree.table, tree.table.rows[slots], slots)
    _check_pairs(tree, entries)
    path, ranks = np.zeros(1 << 16, np.int32), np.zeros(1 << 16, np.int32)
    found: dict[int, set[tuple[int, int]]] = {part: set() for part in held}
    counts = dict.fromkeys(weights, 0)
    for entry in entries:
        n = trace(layout, tree.order.ranks, entry, ROOT, path, ranks)
        for part, rank in zip(path[:n].tolist(), ranks[:n].tolist(), strict=True):
            counts[part] += 1
            if part in found:
                found[part].add((int(entry["slot"]), int(entry["tags"]) & CLAUSE))
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
