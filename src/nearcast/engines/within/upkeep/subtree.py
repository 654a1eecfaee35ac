"""Collects, clears and replaces what hangs below a part, and finds the sample messages that reach it: kernels.

Paper: [APTREE] section 3.3.5: nodes that degrade to leaves, subtrees that are built again.
"""

from __future__ import annotations

from typing import Any

from nearcast.columns.arena import Array, Ints
from nearcast.columns.subscription_tables import WithinLayout
from nearcast.engines.within.arrays import block_of, free_leaf, free_node, give_range, hang
from nearcast.engines.within.entries import find_entry, outward_box
from nearcast.engines.within.layout import FREE_PARTS, HEADER, KEYWORD, NOTHING, ROOT, VERSION, TreeLayout
from nearcast.engines.within.leaf_block import clause_at
from nearcast.engines.within.paths import region_of, trace
from nearcast.jit import NEED_ROOM, kernel, prefetch

_AHEAD = 8  # how many entries ahead rows are prefetched


@kernel
def push_parts(tree: TreeLayout, node: int, path: Ints, n_path: int) -> int:
    """Put the parts of a node that hold something on the path; returns its length, or NEED_ROOM."""
    row = tree.nodes[node]
    if n_path + row.n_parts + 1 > path.size:
        return NEED_ROOM
    for part in range(row.first, row.first + row.n_parts + 1):
        if tree.parts[part].child != NOTHING:
            path[n_path] = part
            n_path += 1
    return n_path


@kernel
def collect_entries(
    tree: TreeLayout, part: int, subscriptions: WithinLayout, ranks: Ints, out: Array, path: Ints
) -> int:
    """Write all entries below a part, as the table has them; how many, or NEED_ROOM if the path is too short.

    An entry that stands in several cells is taken from the one that holds its lower left corner, cut to the region
    of the part.
    """
    region = region_of(tree, part)
    path[0], n_path, n = part, 1, 0
    while n_path > 0:
        n_path -= 1
        below = path[n_path]
        child = tree.parts[below].child
        if child >= 0:
            n_path = push_parts(tree, child, path, n_path)
            if n_path == NEED_ROOM:
                return NEED_ROOM
            continue
        if child == NOTHING:
            continue
        block, n_rows = block_of(tree.parts[below]), tree.parts[below].now
        x0, y0, x1, y1 = region_of(tree, below)
        for i in range(n_rows):
            prefetch(subscriptions.rows, tree.ints[block + HEADER + min(i + _AHEAD, n_rows - 1)])
            slot = tree.ints[block + HEADER + i]
            left, bottom = outward_box(subscriptions.rows[slot])[:2]
            if x0 <= max(left, region.x0) < x1 and y0 <= max(bottom, region.y0) < y1:
                find_entry(subscriptions, slot, clause_at(tree, block, i), ranks, out[n])
                n += 1
    return n


@kernel
def clear_below(tree: TreeLayout, part: int, path: Ints) -> int:
    """Give back everything below a part; DONE (0) or NEED_ROOM, before anything is given back that still has parts."""
    path[0], n_path = part, 1
    while n_path > 0:
        below = path[n_path - 1]
        child = tree.parts[below].child
        if child < NOTHING:
            free_leaf(tree, -2 - child)
        elif child != NOTHING:
            end = push_parts(tree, child, path, n_path)
            if end == NEED_ROOM:
                return NEED_ROOM
            if end > n_path:
                n_path = end
                continue
            free_node(tree, child)
        n_path -= 1
    return 0


@kernel
def filed_below(
    tree: TreeLayout, ranks: Ints, entries: Array, part: int, path: Ints, path_ranks: Ints, found: Any
) -> Any:
    """Set found[i] where entry i is filed below the part; DONE (0) or NEED_ROOM."""
    for i in range(entries.size):
        n = trace(tree, ranks, entries[i], ROOT, path, path_ranks)
        if n == NEED_ROOM:
            return NEED_ROOM
        found[i] = False
        for j in range(n):
            found[i] = found[i] or path[j] == part
    return 0


@kernel
def replace_subtree(tree: TreeLayout, part: int, shadow: Any, since: int) -> None:
    """Hang what stands below the part `shadow` below `part`, which is empty; it knows messages after `since`."""
    tree.heads[VERSION] += 1
    old, new = tree.parts[part], tree.parts[shadow]
    old.now, old.start = new.now, new.start
    hang(tree, part, new.child)
    if new.child >= 0:
        tree.nodes[new.child].part, tree.nodes[new.child].since = part, since
    elif new.child != NOTHING:
        tree.leaves[-2 - new.child].part, tree.leaves[-2 - new.child].since = part, since
    give_range(tree.heads, tree.parts["child"], FREE_PARTS, 0, shadow)


@kernel
def path_to_root(tree: TreeLayout, part: int, path: Ints) -> int:
    """Write the parts from `part` up to below the root; returns how many."""
    n = 0
    while part != ROOT:
        path[n] = part
        n += 1
        part = tree.nodes[tree.parts[part].node].part
    return n


@kernel
def words_used(tree: TreeLayout, part: int, words: Ints, first: int) -> Any:
    """How many words of a message, the `first` of them used, are used behind a cut; NOTHING if none leads there."""
    cut, node = tree.parts[part], tree.nodes[tree.parts[part].node]
    for i in range(first, words.size):
        if cut.low <= words[i] <= cut.high:
            deeper = cut.low == cut.high
            if cut.child >= 0:
                deeper = tree.nodes[cut.child].offset > node.offset
            return i + deeper
    return NOTHING


@kernel
def sample_reaching(tree: TreeLayout, sample: Any, part: int, step: int, path: Ints, messages: Ints, etas: Ints) -> int:
    """Write which of every `step`-th sample message reach a part, and how many words they used; returns how many."""
    n_path, n = path_to_root(tree, part, path), 0
    for i in range(0, sample.xs.size, step):
        words = sample.words[sample.word_start[i] : sample.word_start[i + 1]]
        eta = 0
        for j in range(n_path - 1, -1, -1):
            node = tree.nodes[tree.parts[path[j]].node]
            if path[j] == node.first:
                continue
            if node.kind == KEYWORD:
                eta = words_used(tree, path[j], words, eta)
            else:
                x0, y0, x1, y1 = region_of(tree, path[j])
                if not (x0 <= sample.xs[i] < x1 and y0 <= sample.ys[i] < y1):
                    eta = NOTHING
            if eta == NOTHING:
                break
        if eta != NOTHING:
            messages[n], etas[n] = i, eta
            n += 1
    return n
