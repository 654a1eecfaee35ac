"""Files subscriptions in the tree: orders their words, and finds their prefix, the nodes of their range, and blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Ints
from nearcast.engines.blocks import cut_block
from nearcast.engines.nearest.aoiq.layout import (
    CHILDREN,
    FREE_PREFIX,
    MOST_NODES,
    MOST_WORDS,
    N_BLOCKS,
    N_DEAD,
    N_LISTS,
    N_PREFIXES,
    N_SEEN,
    NOTHING,
    UNRANKED,
    Habits,
    NextWord,
    Node,
    TreeLayout,
    TreeShape,
    chance_of,
    node_code,
    pair_key,
    place_of,
)
from nearcast.engines.nearest.aoiq.node_cost import choose_nodes
from nearcast.engines.nearest.aoiq.posting_lists import block_for, push, push_single
from nearcast.engines.nearest.search_range import NO_WORD, draw_box, level_of
from nearcast.jit import NEED_ROOM, allocating, kernel


@kernel
def rank_words(subscriptions: Any, slots: Ints, ranks: Ints, lowest: int) -> int:
    """Give words without a rank one below all others: who comes late is taken to be rare. Returns the lowest rank."""
    for slot in slots:
        row = subscriptions.rows[slot]
        for i in range(row.term_start, row.term_start + row.n_terms):
            if ranks[subscriptions.terms[i]] == UNRANKED:
                lowest -= 1
                ranks[subscriptions.terms[i]] = lowest
    return lowest


@kernel
def first_words(subscriptions: Any, row: Any, ranks: Ints, n_wanted: int, words: Ints) -> int:
    """Write the terms of a subscription that come first in the order, at most `n_wanted`; returns how many."""
    n = 0
    for i in range(row.term_start, row.term_start + row.n_terms):
        term = subscriptions.terms[i]
        at = n
        if n < n_wanted:
            n += 1
        elif ranks[words[n - 1]] <= ranks[term]:
            continue
        else:
            at = n - 1
        while at > 0 and ranks[words[at - 1]] > ranks[term]:
            words[at] = words[at - 1]
            at -= 1
        words[at] = term
    return n


@kernel
def new_prefix(tree: TreeLayout) -> Any:
    """The number of a prefix that nothing is filed under; room was promised."""
    at = tree.heads[FREE_PREFIX]
    if at == NOTHING:
        at = tree.heads[N_PREFIXES]
        tree.heads[N_PREFIXES] += 1
    else:
        tree.heads[FREE_PREFIX] = -2 - tree.prefixes[at].n_uses
    prefix = tree.prefixes[at]
    prefix.levels, prefix.coming, prefix.n_uses, prefix.hits = 0, 0, 0, 0
    return at


@kernel
def prefix_of(tree: TreeLayout, words: Ints, n_words: int) -> Any:
    """The number of a prefix, made if need be; room was promised."""
    term = words[0]
    if tree.firsts[term] == NOTHING:
        tree.firsts[term] = new_prefix(tree)
    prefix = tree.firsts[term]
    for i in range(1, n_words):
        key = pair_key(prefix, words[i])
        place = place_of(tree.prefix_keys, key)
        if tree.prefix_keys[place] == 0:
            tree.prefixes[prefix].levels |= CHILDREN
            tree.prefixes[prefix].n_uses += 1
            tree.prefix_keys[place] = key + 1
            tree.prefix_ids[place] = new_prefix(tree)
        prefix = tree.prefix_ids[place]
    return prefix


@kernel
def has_room(tree: TreeLayout) -> Any:
    """Is there room for one more subscription, its entries excepted?"""
    heads = tree.heads
    return (
        4 * (heads[N_PREFIXES] + MOST_WORDS) <= 3 * tree.prefix_keys.size
        and heads[N_PREFIXES] + MOST_WORDS <= tree.prefixes.size
        and 4 * (heads[N_LISTS] + MOST_NODES) <= 3 * tree.list_keys.size
        and heads[N_BLOCKS] + 2 * MOST_NODES <= tree.blocks.size
    )


@kernel
def add_entry(
    tree: TreeLayout,
    habits: Habits,
    filed: Array,
    slot: int,
    node: Node,
    prefix: int,
    word: NextWord,
    update_ratio: float,
) -> bool:
    """Put a subscription into the list of a node and a prefix; returns whether there was room."""
    key = pair_key(node_code(node.level, node.column, node.row), prefix)
    place = place_of(tree.list_keys, key)
    generation = filed[slot].generation
    if tree.list_keys[place] == 0:
        at = cut_block(tree.ranges, tree.entries["slot"], 0)
        if at == NEED_ROOM:
            return False
        tree.entries[at].slot, tree.entries[at].generation = slot, generation
        tree.list_keys[place], tree.list_heads[place] = key + 1, ~at
        tree.heads[N_LISTS] += 1
        own = tree.prefixes[prefix]
        own.n_uses += 1
        own.levels |= 1 << node.level
        own.coming |= 1 << node.level
        return True
    if tree.list_heads[place] < 0 and push_single(tree, habits, filed, place, slot, generation):
        return True
    return push(tree, block_for(tree, place, word.rank, word.p, update_ratio), slot, generation) != NEED_ROOM


@allocating
def file_many(
    tree: TreeLayout,
    habits: Habits,
    filed: Array,
    subscriptions: Any,
    buffers: Array,
    slots: Ints,
    space: Any,
    shape: TreeShape,
) -> int:
    """File subscriptions by the balls that they have now; returns how many were filed before room ran out.

    What room ran out for is filed again in the next call; the entries that it had got are dead by then.

    Paper: [CKQST] section 3.2, definitions 1 and 2; section 3.4.
    Departs: words stand rarest first instead of in alphabetical order; an open range is filed at the root.
    """
    metric, bounds = space.metric, space.bounds
    n_prefix, height = shape.n_prefix, shape.height
    words = np.empty(MOST_WORDS + 1, dtype=np.int32)
    nodes = np.empty((MOST_NODES, 3), dtype=np.int64)
    n_seen = tree.heads[N_SEEN]
    for done in range(slots.size):
        slot = slots[done]
        row, own = subscriptions.rows[slot], filed[slot]
        if not has_room(tree):
            return done
        draw_box(own, metric, row.x, row.y, buffers[slot].floor)
        own.level = level_of(own, metric, row.x, row.y, bounds, height)
        tree.heads[N_DEAD] += own.n_rows
        own.generation += 1
        own.n_rows, own.word = 0, NO_WORD
        n_words = first_words(subscriptions, row, habits.ranks, n_prefix + 1, words)
        prefix = prefix_of(tree, words, min(n_words, n_prefix))
        rank, p, p_prefix = UNRANKED, 1.0, 1.0
        for i in range(min(n_words, n_prefix)):
            p_prefix *= chance_of(habits.seen, n_seen, words[i])
        if n_words > n_prefix:
            own.word = words[n_prefix]
            rank, p = habits.ranks[own.word], chance_of(habits.seen, n_seen, own.word)
        p_prefix = max(p_prefix, tree.prefixes[prefix].hits / (n_seen + 1.0))
        word = NextWord(int(np.int64(rank)), p, p_prefix)
        n_nodes = choose_nodes(tree, habits.cells, own, bounds, shape, prefix, word, nodes)
        for i in range(n_nodes):
            node = Node(nodes[i, 0], nodes[i, 1], nodes[i, 2])
            if not add_entry(tree, habits, filed, slot, node, prefix, word, shape.update_ratio):
                return done
            own.n_rows += 1
    return slots.size


@kernel
def remove_many(tree: TreeLayout, filed: Array, slots: Ints) -> None:
    """These subscriptions are filed nowhere; their entries are removed when a message comes by."""
    for slot in slots:
        own = filed[slot]
        own.generation += 1
        tree.heads[N_DEAD] += own.n_rows
        own.n_rows = 0
