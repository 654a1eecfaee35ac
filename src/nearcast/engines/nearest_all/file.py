"""Subscriptions go into the tree: their words in order, their prefix, the nodes of their range, and a block in each."""

from __future__ import annotations

import numpy as np

from nearcast.engines.nearest_all.choose import choose_nodes
from nearcast.engines.nearest_all.layout import (
    CHILDREN,
    MOST_NODES,
    MOST_WORDS,
    N_BLOCKS,
    N_DEAD,
    N_LISTS,
    N_PREFIXES,
    N_SEEN,
    NOTHING,
    UNRANKED,
    chance_of,
    node_code,
    pair_key,
    place_of,
)
from nearcast.engines.nearest_all.lists import block_for, push
from nearcast.engines.reach import NO_WORD, draw_box, level_of
from nearcast.jit import NEED_ROOM, kernel


@kernel
def rank_words(subscriptions, slots, ranks, lowest):
    """Give words without a rank one below all others: who comes late is taken to be rare. Returns the lowest rank."""
    for slot in slots:
        row = subscriptions.rows[slot]
        for i in range(row.term_start, row.term_start + row.n_terms):
            if ranks[subscriptions.terms[i]] == UNRANKED:
                lowest -= 1
                ranks[subscriptions.terms[i]] = lowest
    return lowest


@kernel
def first_words(subscriptions, row, ranks, n_wanted, words):
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
def prefix_of(tree, words, n_words):
    """The number of a prefix, made if need be; room was promised."""
    term = words[0]
    prefix = tree.firsts[term]
    if prefix == NOTHING:
        prefix = tree.firsts[term] = tree.heads[N_PREFIXES]
        tree.heads[N_PREFIXES] += 1
        tree.prefixes[prefix].levels, tree.prefixes[prefix].hits = 0, 0
    for i in range(1, n_words):
        key = pair_key(prefix, words[i])
        place = place_of(tree.prefix_keys, key)
        if tree.prefix_keys[place] == 0:
            tree.prefixes[prefix].levels |= CHILDREN
            tree.prefix_keys[place] = key + 1
            longer = tree.prefix_ids[place] = tree.heads[N_PREFIXES]
            tree.heads[N_PREFIXES] += 1
            tree.prefixes[longer].levels, tree.prefixes[longer].hits = 0, 0
        prefix = tree.prefix_ids[place]
    return prefix


@kernel
def has_room(tree):
    """Is there room for one more subscription, its entries excepted?"""
    heads = tree.heads
    return (
        3 * (heads[N_PREFIXES] + MOST_WORDS) <= 2 * tree.prefix_keys.size
        and heads[N_PREFIXES] + MOST_WORDS <= tree.prefixes.size
        and 3 * (heads[N_LISTS] + MOST_NODES) <= 2 * tree.list_keys.size
        and heads[N_BLOCKS] + MOST_NODES <= tree.blocks.size
    )


@kernel
def file_many(tree, habits, filed, subscriptions, buffers, slots, where, settings):
    """File subscriptions by the balls that they have now; returns how many were filed before room ran out.

    `where` is the metric and the bounds, `settings` the words of a prefix (m), the height and theta. What room ran out
    for is filed anew in the next call; the entries that it had got are dead by then.

    Paper: [CKQST] section 3.2, definitions 1 and 2; section 3.4.
    Departs: words stand rarest first instead of in alphabetical order; an open range is filed at the root.
    """
    metric, bounds = where
    n_prefix, height, theta = settings
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
        n_nodes = choose_nodes(
            tree, habits.cells, own, (bounds, theta), height, prefix, (np.int64(rank), p, p_prefix), nodes
        )
        for i in range(n_nodes):
            level, column, row_number = nodes[i, 0], nodes[i, 1], nodes[i, 2]
            key = pair_key(node_code(level, column, row_number), prefix)
            at = block_for(tree, key, rank, p, theta)
            tree.prefixes[prefix].levels |= 1 << level
            if push(tree, at, slot, own.generation) == NEED_ROOM:
                return done
            own.n_rows += 1
    return slots.size


@kernel
def forget(tree, filed, slots):
    """These subscriptions are filed nowhere; their entries are removed when a message comes by."""
    for slot in slots:
        own = filed[slot]
        own.generation += 1
        tree.heads[N_DEAD] += own.n_rows
        own.n_rows = 0
