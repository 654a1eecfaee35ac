"""What a tree looks like: nodes of each kind and entries by level."""

from __future__ import annotations

import numpy as np

from nearcast.engines.contract import Stats
from nearcast.engines.within.layout import KEYWORD, N_LEAVES, NOTHING, ROOT, TreeLayout


def shape(tree: TreeLayout) -> Stats:
    """Keyword nodes, space nodes, leaves and their entries, from the root down, level by level."""
    levels = []
    parts = np.array([ROOT])
    while parts.size:
        children = tree.parts["child"][parts]
        nodes, leaves = children[children > NOTHING], parts[children < NOTHING]
        by_words = int((tree.nodes["kind"][nodes] == KEYWORD).sum())
        held = int(tree.parts["now"][leaves].sum())
        levels.append(
            {"keyword nodes": by_words, "space nodes": nodes.size - by_words, "leaves": leaves.size, "entries": held}
        )
        first, n_parts = tree.nodes["first"][nodes].astype(np.int64), tree.nodes["n_parts"][nodes] + 1
        starts = np.cumsum(n_parts, dtype=np.int64) - n_parts
        parts = np.repeat(first - starts, n_parts) + np.arange(int(n_parts.sum()))
    return {"leaves": int(tree.heads[N_LEAVES]), "levels": levels}
