"""Puts postings into the groups of their words, takes them out, and moves them inside their groups: kernels.

All bounds of a group stay right in place: a key that falls, or a posting that comes, moves them at once; what they lose
when a posting leaves is won back when the word is cut again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Floats
from nearcast.engines.blocks import block_class, block_room, give_block, take_block
from nearcast.engines.topk.keys import Rest, code_of, rest_of, tilt_of
from nearcast.engines.topk.layout import REFILED, Shape, SubscriptionLayout
from nearcast.engines.topk.postings import (
    find_posting,
    first_key,
    move_group,
    place_of,
    posting_key,
    shift_hole,
    write_posting,
)
from nearcast.jit import kernel


@kernel
def find_group(index: SubscriptionLayout, term: int, code: int, alpha: float) -> Any:
    """The first group of the cell of a word that a place belongs to, and the group of an alpha in it."""
    groups, cells = index.groups, index.cells
    row = index.lists[term]
    start = np.int64(row.start)
    first, end = start, start + row.n_groups
    while end - first > 1:
        middle = (first + end) >> 1
        if cells[middle].code <= code:
            first = middle
        else:
            end = middle
    while first > start and cells[first - 1].code == cells[first].code:
        first -= 1
    after = first + cells[first].n_more + 1
    at = first
    while at + 1 < after and groups[at + 1].low <= alpha:
        at += 1
    return first, at


@kernel
def bound_cell(index: SubscriptionLayout, first: int) -> None:
    """Write the least key and tilt of the groups of a cell beside the first of them."""
    groups, cell = index.groups, index.cells[first]
    cell.key, cell.tilt = groups[first].key, groups[first].tilt
    for at in range(first + 1, first + cell.n_more + 1):
        cell.key = min(cell.key, groups[at].key)
        cell.tilt = min(cell.tilt, groups[at].tilt)


@kernel
def clear_group(index: SubscriptionLayout, at: int, code: int, low: float) -> None:
    """Make a group empty, and the only one of its cell."""
    group, cell = index.groups[at], index.cells[at]
    group.low, group.tilt, group.key = low, np.inf, np.inf
    group.start, group.n, group.room = 0, 0, -1
    cell.x0, cell.y0, cell.z0 = np.inf, np.inf, np.inf
    cell.x1, cell.y1, cell.z1 = -np.inf, -np.inf, -np.inf
    cell.code, cell.tilt, cell.key, cell.n_more = code, np.inf, np.inf, 0


@kernel
def widen_cell(cell: Any, face: Any) -> None:
    """Let the box of a cell hold a point."""
    cell.x0, cell.x1 = min(cell.x0, face.x), max(cell.x1, face.x)
    cell.y0, cell.y1 = min(cell.y0, face.y), max(cell.y1, face.y)
    cell.z0, cell.z1 = min(cell.z0, face.z), max(cell.z1, face.z)


@kernel
def insert_position(index: Any, at: Any, key: Any) -> int:
    """A free position for a key in a group, which moves to a larger block when full; room was promised."""
    group = index.groups[at]
    links = index.links["number_0"]
    if group.room < 0 or group.n == block_room(group.room):
        size_class, old, old_class = block_class(group.n + 1), int(group.start), int(group.room)
        start = take_block(index.posting_blocks, links, size_class)
        move_group(index.postings, group, start, size_class)
        if old_class >= 0:
            give_block(index.posting_blocks, links, old_class, old)
    group.n += 1
    group.key = min(group.key, key)
    return shift_hole(index.postings, group, group.n - 1, key)


@kernel
def take_posting(index: SubscriptionLayout, at: int, slot: int) -> None:
    """Take a subscription's posting out of a group."""
    group = index.groups[at]
    shift_hole(index.postings, group, find_posting(index.postings.ints, group, slot), np.inf)
    group.n -= 1
    group.key = first_key(index.postings, group) if group.n > 0 else np.inf


@kernel
def free_postings(index: SubscriptionLayout, first: int, end: int) -> None:
    """Give back the postings of these groups."""
    for at in range(first, end):
        group = index.groups[at]
        if group.room >= 0:
            give_block(index.posting_blocks, index.links["number_0"], group.room, group.start)


@kernel
def free_groups(index: SubscriptionLayout, term: int) -> None:
    """Give back all groups of a word, whose postings are given back or copied elsewhere."""
    row = index.lists[term]
    if row.n_groups > 0:
        give_block(index.group_blocks, index.groups["start"], block_class(row.n_groups), row.start)
    row.n_groups = 0


@kernel
def file_posting(index: SubscriptionLayout, slot: int, term: int, code: int, rest: Rest) -> None:
    """File a word of a subscription; the caller has made sure of room."""
    row = index.lists[term]
    if row.n_groups == 0:
        row.start = take_block(index.group_blocks, index.groups["start"], block_class(1))
        row.n_groups, row.n, row.built = 1, 0, 0
        clear_group(index, int(row.start), 0, -1.0)
    face = index.faces[slot]
    first, at = find_group(index, term, code, face.alpha)
    group, position = index.groups[at], insert_position(index, at, posting_key(face, rest))
    place, stride = place_of(group.start, block_room(group.room), position)
    write_posting(index.postings, place, stride, slot, face, rest)
    index.groups[at].tilt = min(index.groups[at].tilt, tilt_of(np.float64(face.alpha)))
    widen_cell(index.cells[first], face)
    bound_cell(index, first)
    row.n += 1


@kernel
def unfile_posting(index: SubscriptionLayout, slot: int, term: int, code: int) -> Any:
    """Take out a word of a subscription; returns how many postings the word has left."""
    row = index.lists[term]
    first, at = find_group(index, term, code, index.faces[slot].alpha)
    take_posting(index, at, slot)
    bound_cell(index, first)
    row.n -= 1
    if row.n == 0:
        free_postings(index, row.start, row.start + row.n_groups)
        free_groups(index, term)
    return row.n


@kernel
def refile(index: SubscriptionLayout, subscriptions: Any, idf: Floats, slot: int, floor: float, shape: Shape) -> None:
    """The floor of a subscription, as the filter uses it, has changed: move its postings to where they belong now."""
    terms, counts, postings = subscriptions.terms, subscriptions.counts, index.postings
    row, scale = subscriptions.rows[slot], subscriptions.scales[slot]
    face = index.faces[slot]
    face.floor = floor
    code = code_of(face, slot, shape)
    index.work[REFILED] += 1
    for i in range(row.term_start, row.term_start + row.n_terms):
        rest = rest_of(terms, counts, row, scale, idf, i)
        first, at = find_group(index, terms[i], code, face.alpha)
        group = index.groups[at]
        hole = shift_hole(postings, group, find_posting(postings.ints, group, slot), posting_key(face, rest))
        place, stride = place_of(group.start, block_room(group.room), hole)
        write_posting(postings, place, stride, slot, face, rest)
        group.key = first_key(postings, group)
        bound_cell(index, first)
