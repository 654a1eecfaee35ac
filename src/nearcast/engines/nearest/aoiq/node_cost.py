"""Chooses the nodes that a search range is filed in, by the memory-based cost model of CkQST section 3.4: kernels."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from nearcast.columns.arena import Array, Ints
from nearcast.engines.nearest.aoiq.layout import (
    MOST_NODES,
    NOTHING,
    UNRANKED,
    NextWord,
    Node,
    TreeLayout,
    TreeShape,
    node_code,
    pair_key,
    place_of,
    share_of,
)
from nearcast.engines.nearest.aoiq.posting_lists import block_chance
from nearcast.jit import kernel
from nearcast.space.cells import cell_index


class NodeCost(NamedTuple):
    """What one subscription costs in a node."""

    verify: float
    update: float


@kernel
def weigh_node(tree: TreeLayout, cells: Ints, prefix: int, node: Node, rank: int, p: float) -> NodeCost:
    """The `NodeCost` of a subscription; `rank` and `p` are those of its `NextWord`.

    Paper: [CKQST] section 3.4, equations 4 to 7 and 10.
    Departs: messages meet the words of a block equally often, so half of its rows are expected to be looked at.
    """
    place = place_of(tree.list_keys, pair_key(node_code(node.level, node.column, node.row), prefix))
    n_blocks, n_rows = 1, 0
    if tree.list_keys[place] != 0:
        at, n_blocks = tree.list_heads[place], 0
        if at < 0:
            at, n_blocks, n_rows = NOTHING, 1, 1
        while at != NOTHING:
            block = tree.blocks[at]
            n_blocks += 1
            if block.low <= rank:  # the last such block is the one, or the one before
                n_rows = block.n_rows
                if rank != UNRANKED and block.low != UNRANKED:
                    p = max(p, block_chance(block.p_most, block.p_sum, block.n_words))
            at = block.next
    rows = 0.5 * (n_rows + 1.0)
    verify = share_of(cells, node.level, node.column, node.row) * p * (rows + 1.0)
    return NodeCost(verify, math.log2(n_blocks) + rows)


@kernel
def choose_nodes(
    tree: TreeLayout,
    cells: Ints,
    own: Any,
    bounds: tuple[float, float, float, float],
    shape: TreeShape,
    prefix: int,
    word: NextWord,
    nodes: Array,
) -> int:
    """Write the nodes (level, column, row) that cost least for a search range with this box; returns how many.

    The union of the nodes covers the box.

    Paper: [CKQST] section 3.4, definition 3, equations 8, 9, 11 and 12.
    """
    height, rank, p = shape.height, word.rank, word.p
    if own.x0 == -math.inf and own.x1 == math.inf and own.y0 == -math.inf and own.y1 == math.inf:
        nodes[0, 0], nodes[0, 1], nodes[0, 2] = 0, 0, 0
        return 1
    column0 = cell_index(bounds[0], bounds[2], 1 << height, own.x0)
    column1 = cell_index(bounds[0], bounds[2], 1 << height, own.x1)
    row0 = cell_index(bounds[1], bounds[3], 1 << height, own.y0)
    row1 = cell_index(bounds[1], bounds[3], 1 << height, own.y1)
    level = height
    while (column0 >> (height - level)) != (column1 >> (height - level)) or (row0 >> (height - level)) != (
        row1 >> (height - level)
    ):
        level -= 1
    nodes[0, 0], nodes[0, 1], nodes[0, 2] = level, column0 >> (height - level), row0 >> (height - level)
    at, n = 0, 1  # nodes before `at` are final
    while at < n:
        level, column, row = nodes[at, 0], nodes[at, 1], nodes[at, 2]
        if level == height or n + 3 > MOST_NODES:
            at += 1
            continue
        down = height - level - 1
        left, right = max(2 * column, column0 >> down), min(2 * column + 1, column1 >> down)
        low, high = max(2 * row, row0 >> down), min(2 * row + 1, row1 >> down)
        cost = weigh_node(tree, cells, prefix, Node(level, column, row), rank, p)
        verify_below, update_below = 0.0, 0.0
        for i in range(left, right + 1):
            for j in range(low, high + 1):
                below = weigh_node(tree, cells, prefix, Node(level + 1, i, j), rank, p)
                verify_below += below.verify
                update_below += below.update
        gain = word.p_prefix * (cost.verify - verify_below)
        if gain <= 0.0 or gain < shape.update_ratio * (update_below - cost.update):
            at += 1
            continue
        first = True
        for i in range(left, right + 1):
            for j in range(low, high + 1):
                place = at if first else n
                n += 0 if first else 1
                first = False
                nodes[place, 0], nodes[place, 1], nodes[place, 2] = level + 1, i, j
    return n
