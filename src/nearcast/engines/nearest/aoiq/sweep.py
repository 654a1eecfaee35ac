"""Removes dead entries, lists and prefixes, a few at a time, so that nobody waits long for it: kernels."""

from __future__ import annotations

from typing import Any

from nearcast.columns.arena import Array
from nearcast.engines.blocks import block_class, give_block
from nearcast.engines.nearest.aoiq.layout import (
    FREE_BLOCK,
    FREE_PREFIX,
    N_DEAD,
    N_LISTS,
    NOTHING,
    SWEPT,
    SWEPT_FIRSTS,
    SWEPT_KEYS,
    TreeLayout,
    level_of_node,
    remove_key,
)
from nearcast.engines.nearest.aoiq.posting_lists import move_block
from nearcast.jit import kernel

_SPARSE = 9  # size classes, more than a doubling, by which a block moves to a smaller range


@kernel
def clean_block(tree: TreeLayout, filed: Array, block: Any) -> None:
    """Remove the dead entries of a block, and give back its range, or most of it, if it is hardly used."""
    entries, i = tree.entries, 0
    while i < block.n_rows:
        entry = entries[block.start + i]
        if filed[entry.slot].generation == entry.generation:
            i += 1
            continue
        block.n_rows -= 1
        last = entries[block.start + block.n_rows]
        entry.slot, entry.generation = last.slot, last.generation
        tree.heads[N_DEAD] -= 1
    if block.size_class == NOTHING:
        return
    if block.n_rows == 0:
        give_block(tree.ranges, entries["slot"], block.size_class, block.start)
        block.size_class = NOTHING
    elif block_class(block.n_rows) + _SPARSE <= block.size_class or (block.n_rows == 1 and block.size_class > 0):
        move_block(tree, block, block_class(block.n_rows))


@kernel
def clean_list(tree: TreeLayout, filed: Array, place: int) -> bool:
    """Remove the dead entries of a list and the blocks that have no others; returns whether anything is left."""
    head, blocks = tree.list_heads[place], tree.blocks
    if head < 0:
        entry = tree.entries[~head]
        if filed[entry.slot].generation == entry.generation:
            return True
        give_block(tree.ranges, tree.entries["slot"], 0, ~head)
        tree.heads[N_DEAD] -= 1
        return False
    before, at = NOTHING, head
    while at != NOTHING:
        block = blocks[at]
        following = block.next
        clean_block(tree, filed, block)
        if block.n_rows > 0:
            before = at
        else:
            if before == NOTHING:
                tree.list_heads[place] = head = following
            else:
                blocks[before].next = following
            block.next, tree.heads[FREE_BLOCK] = tree.heads[FREE_BLOCK], at
        at = following
    if head == NOTHING:
        return False
    block = blocks[head]
    if block.next == NOTHING and block.size_class == 0:  # one entry needs no block
        tree.list_heads[place] = ~block.start
        block.next, tree.heads[FREE_BLOCK] = tree.heads[FREE_BLOCK], head
    return True


@kernel
def sweep_lists(tree: TreeLayout, filed: Array, n_places: int) -> bool:
    """Clean the lists in the next `n_places` places; returns whether all places have been looked at.

    Every list that is kept is noted with its prefix, so that prefixes can drop the levels without lists.
    """
    heads, keys, prefixes = tree.heads, tree.list_keys, tree.prefixes
    for _ in range(n_places):
        at = heads[SWEPT]
        if at >= keys.size:
            heads[SWEPT] = 0
            return True
        if keys[at] == 0:
            heads[SWEPT] += 1
            continue
        prefix = prefixes[(keys[at] - 1) & 0x7FFFFFFF]
        if clean_list(tree, filed, at):
            prefix.coming |= 1 << level_of_node((keys[at] - 1) >> 31)
            heads[SWEPT] += 1
        else:
            prefix.n_uses -= 1
            heads[N_LISTS] -= 1
            remove_key(keys, tree.list_heads, at)  # what takes its place comes next
    return False


@kernel
def free_prefix(tree: TreeLayout, at: int) -> None:
    """Nothing is filed under this prefix, nor under longer ones."""
    tree.prefixes[at].n_uses = -2 - tree.heads[FREE_PREFIX]
    tree.heads[FREE_PREFIX] = at


@kernel
def sweep_prefixes(tree: TreeLayout, n_places: int) -> None:
    """Free the unused prefixes in the next `n_places` places, of several words and of one."""
    heads, keys, prefixes = tree.heads, tree.prefix_keys, tree.prefixes
    for _ in range(n_places):
        at = heads[SWEPT_KEYS]
        if at >= keys.size:
            heads[SWEPT_KEYS] = 0
        elif keys[at] != 0 and prefixes[tree.prefix_ids[at]].n_uses == 0:
            free_prefix(tree, tree.prefix_ids[at])
            prefixes[(keys[at] - 1) >> 31].n_uses -= 1
            remove_key(keys, tree.prefix_ids, at)
        else:
            heads[SWEPT_KEYS] += 1
        at = heads[SWEPT_FIRSTS]
        if at >= tree.firsts.size:
            heads[SWEPT_FIRSTS] = 0
        else:
            prefix = tree.firsts[at]
            if prefix != NOTHING and prefixes[prefix].n_uses == 0:
                free_prefix(tree, prefix)
                tree.firsts[at] = NOTHING
            heads[SWEPT_FIRSTS] += 1
