"""Puts subscriptions into the blocks of posting lists where they cost least (CkQST sections 3.2 and 3.3): kernels."""

from __future__ import annotations

import math
from typing import Any

from nearcast.columns.arena import Array
from nearcast.engines.blocks import block_room, cut_block, give_block
from nearcast.engines.nearest.aoiq.layout import (
    FREE_BLOCK,
    MOST_BLOCKS,
    N_BLOCKS,
    N_DEAD,
    N_SEEN,
    NOTHING,
    REVIVED,
    UNRANKED,
    Habits,
    TreeLayout,
    chance_of,
)
from nearcast.engines.nearest.search_range import NO_WORD
from nearcast.jit import NEED_ROOM, kernel

_LOOKED = 32  # entries among which an old one of the same subscription is looked for


@kernel
def block_chance(p_most: float, p_sum: float, n_words: int) -> float:
    """The probability that a block is verified.

    Paper: [CKQST] section 3.2, equation 2.
    Departs: a block of one word has that word's probability; the paper divides by zero.
    """
    if n_words <= 1:
        return min(p_most, 1.0)
    return min(p_most + (p_sum - p_most) / (n_words - 1), 1.0)


@kernel
def new_block(tree: TreeLayout, low: int, p: float, following: int) -> Any:
    """A block for one word and no entries yet."""
    heads, blocks = tree.heads, tree.blocks
    at = heads[FREE_BLOCK]
    if at == NOTHING:
        at = heads[N_BLOCKS]
        heads[N_BLOCKS] += 1
    else:
        heads[FREE_BLOCK] = blocks[at].next
    block = blocks[at]
    block.start, block.n_rows, block.size_class, block.next = 0, 0, NOTHING, following
    block.low, block.high, block.n_words, block.p_most, block.p_sum = low, low, 1, p, p
    return at


@kernel
def widened_cost(block: Any, p: float, n_blocks: int) -> Any:
    """By how much the verification cost grows if a block takes in one more word, and the probability that it then has.

    Paper: [CKQST] section 3.3, theorem 3, cases 2 and 3.
    """
    before = block_chance(block.p_most, block.p_sum, block.n_words)
    after = block_chance(max(block.p_most, p), block.p_sum + p, block.n_words + 1)
    return (after - before) * (math.log2(n_blocks) + block.n_rows) + after


@kernel
def choose_block(tree: TreeLayout, head: int, rank: int, p: float, update_ratio: float) -> tuple[int, int]:
    """The block of a list for a word outside the prefix: (block or NOTHING for a new one, the block before that).

    Paper: [CKQST] section 3.3, theorems 3 and 4, algorithm 1.
    Departs: a new block holds one row, which the paper leaves out of its cost; a list has at most 64 blocks.
    """
    blocks = tree.blocks
    before, after = NOTHING, NOTHING
    n_blocks, chances = 0, 0.0
    at = head
    while at != NOTHING:
        block = blocks[at]
        if block.low != UNRANKED:
            n_blocks += 1
            chances += block_chance(block.p_most, block.p_sum, block.n_words)
            if block.low <= rank <= block.high:
                return at, before
            if block.low > rank and after == NOTHING:
                after = at
        if after == NOTHING:
            before = at
        at = block.next
    left = before if before != NOTHING and blocks[before].low != UNRANKED else NOTHING
    if n_blocks == 0:
        return NOTHING, before
    best, chosen = math.inf, NOTHING
    if n_blocks < MOST_BLOCKS:
        best = math.log2((n_blocks + 1) / n_blocks) * chances + p * (math.log2(n_blocks + 1) + 1.0)
        best += update_ratio * (1.0 + math.log2(n_blocks))
    for at in (left, after):
        if at != NOTHING:
            cost = widened_cost(blocks[at], p, n_blocks) + update_ratio
            if cost < best:
                best, chosen = cost, at
    return chosen, before


@kernel
def block_for(tree: TreeLayout, place: int, rank: int, p: float, update_ratio: float) -> Any:
    """The block of the list at this place that a subscription belongs in, made if need be; room was promised."""
    blocks = tree.blocks
    head = tree.list_heads[place]
    if rank == UNRANKED:
        if blocks[head].low != UNRANKED:
            head = tree.list_heads[place] = new_block(tree, UNRANKED, p, head)
        return head
    chosen, before = choose_block(tree, head, rank, p, update_ratio)
    if chosen == NOTHING:
        if before == NOTHING:
            chosen = tree.list_heads[place] = new_block(tree, rank, p, head)
        else:
            chosen = blocks[before].next = new_block(tree, rank, p, blocks[before].next)
        return chosen
    block = blocks[chosen]
    if not block.low <= rank <= block.high:
        block.low, block.high = min(block.low, rank), max(block.high, rank)
        block.n_words += 1
        block.p_most, block.p_sum = max(block.p_most, p), block.p_sum + p
    return chosen


@kernel
def move_block(tree: TreeLayout, block: Any, size_class: int) -> bool:
    """Give a block another range; returns whether there was one."""
    entries = tree.entries
    start = cut_block(tree.ranges, entries["slot"], size_class)
    if start == NEED_ROOM:
        return False
    for i in range(block.n_rows):
        entries[start + i] = entries[block.start + i]
    if block.size_class != NOTHING:
        give_block(tree.ranges, entries["slot"], block.size_class, block.start)
    block.start, block.size_class = start, size_class
    return True


@kernel
def push(tree: TreeLayout, at: int, slot: int, generation: int) -> int:
    """Put an entry into a block, in place of a dead one of the same subscription if there is one; or NEED_ROOM.

    Paper: [CKQST] section 2.2, delayed deletion: an insertion may cancel the mark of what was to be deleted.
    """
    block, entries = tree.blocks[at], tree.entries
    for i in range(block.start, block.start + min(block.n_rows, _LOOKED)):
        if entries[i].slot == slot:
            entries[i].generation = generation
            tree.heads[N_DEAD] -= 1
            tree.heads[REVIVED] += 1
            return 0
    full = block.size_class == NOTHING or block.n_rows == block_room(block.size_class)
    if full and not move_block(tree, block, block.size_class + 1):
        return NEED_ROOM
    entries[block.start + block.n_rows].slot = slot
    entries[block.start + block.n_rows].generation = generation
    block.n_rows += 1
    return 0


@kernel
def push_single(tree: TreeLayout, habits: Habits, filed: Array, place: int, slot: int, generation: int) -> bool:
    """Put an entry into the place of a single one that is dead; else make that one a block and return False."""
    at = ~tree.list_heads[place]
    entry = tree.entries[at]
    own = filed[entry.slot]
    if entry.slot == slot or own.generation != entry.generation:
        tree.heads[N_DEAD] -= 1
        tree.heads[REVIVED] += entry.slot == slot
        entry.slot, entry.generation = slot, generation
        return True
    rank, p = UNRANKED, 1.0
    if own.word != NO_WORD:
        rank, p = habits.ranks[own.word], chance_of(habits.seen, tree.heads[N_SEEN], own.word)
    made = new_block(tree, rank, p, NOTHING)
    block = tree.blocks[made]
    block.start, block.n_rows, block.size_class = at, 1, 0
    tree.list_heads[place] = made
    return False
