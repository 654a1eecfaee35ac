"""Where the fields of a posting lie: kernels that read, write and move postings.

The pool is one array of 32-bit numbers, seen as integers (`postings`) and as floats (`lanes`). A group of postings has
a block of it, `WIDTH` numbers for each posting that it has room for. Inside, up to `LANES` postings that follow one
another are a **strip**: first all their marks, then all their bits, and so on, so that the processor compares many
postings at once (`sift.py`). A strip at the end of a block is as short as the block needs. An entry's `at` is where its
mark is; its next field is `stride` numbers further.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Ints
from nearcast.engines.blocks import block_room
from nearcast.engines.topk.keys import Rest, key_of, reach_of, share_of
from nearcast.engines.topk.layout import (
    AFTER_BITS,
    ALPHA,
    BITS,
    FLOOR,
    HIDDEN_BITS,
    KEY,
    LANES,
    LENGTHS,
    MANY,
    PADDING,
    POINT,
    WIDTH,
    PostingPool,
)
from nearcast.jit import inlined, kernel


@kernel
def pool_room(pool: PostingPool) -> int:
    """Postings that a pool has room for."""
    return (pool.ints.size - PADDING) // WIDTH


@inlined
def strip_of(start: Any, room: Any, position: Any) -> Any:
    """Where the strip of a position begins in the pool, and its stride, in a block of `room` postings from `start`."""
    first = position - position % LANES
    return WIDTH * (start + first), min(np.int64(LANES), room - first)


@inlined
def place_of(start: Any, room: Any, position: Any) -> Any:
    """`at` and stride of a posting."""
    strip, stride = strip_of(start, room, position)
    return strip + position % LANES, stride


@kernel
def copy_posting(source: Ints, at: int, stride: int, target: Ints, to: int, to_stride: int) -> None:
    """Copy a posting."""
    for field in range(WIDTH):
        target[to + field * to_stride] = source[at + field * stride]


@kernel
def posting_key(face: Any, rest: Rest) -> Any:
    """What a word of a subscription is sorted by."""
    return key_of(np.float64(face.floor), np.float64(face.alpha), reach_of(rest.own, rest.after))


@kernel
def write_posting(pool: PostingPool, at: int, stride: int, slot: int, face: Any, rest: Rest) -> None:
    """Write the posting of a word of a subscription."""
    ints, lanes = pool
    bits = np.int64(rest.bits)
    ints[at] = (np.int64(slot) << HIDDEN_BITS) + min(rest.n_hidden, MANY)
    ints[at + BITS * stride] = bits - ((bits >> 31) << 32)  # 32 bits as a signed number
    lanes[at + KEY * stride] = posting_key(face, rest)
    lengths = share_of(rest.own) | share_of(rest.after) << AFTER_BITS
    ints[at + LENGTHS * stride] = lengths - ((lengths >> 31) << 32)
    lanes[at + POINT * stride] = face.x
    lanes[at + (POINT + 1) * stride] = face.y
    lanes[at + (POINT + 2) * stride] = face.z
    lanes[at + FLOOR * stride] = face.floor
    lanes[at + ALPHA * stride] = face.alpha


@kernel
def find_posting(ints: Ints, group: Any, slot: int) -> Any:
    """Position of a subscription's posting in its group."""
    start, room = np.int64(group.start), np.int64(block_room(group.room))
    position = np.int64(0)
    while True:
        at = place_of(start, room, position)[0]
        if ints[at] >> HIDDEN_BITS == slot:
            return position
        position += 1


@inlined
def key_at(pool: Any, start: Any, room: Any, position: Any) -> Any:
    """The key of a posting in a block."""
    at, stride = place_of(start, room, position)
    return pool.lanes[at + KEY * stride]


@kernel
def first_key(pool: PostingPool, group: Any) -> Any:
    """The least key of a group that is not empty."""
    return key_at(pool, np.int64(group.start), np.int64(block_room(group.room)), np.int64(0))


@kernel
def move_posting(pool: PostingPool, start: Any, room: Any, position: int, to: int) -> None:
    """Copy a posting to another position of its block."""
    at, stride = place_of(start, room, position)
    to_at, to_stride = place_of(start, room, to)
    copy_posting(pool.ints, at, stride, pool.ints, to_at, to_stride)


@kernel
def shift_hole(pool: PostingPool, group: Any, hole: int, key: float) -> int:
    """Shift a free position among the sorted postings of a group to where a key belongs; returns it."""
    start, room = np.int64(group.start), np.int64(block_room(group.room))
    while hole > 0 and key_at(pool, start, room, hole - 1) > key:
        move_posting(pool, start, room, hole - 1, hole)
        hole -= 1
    while hole + 1 < group.n and key_at(pool, start, room, hole + 1) < key:
        move_posting(pool, start, room, hole + 1, hole)
        hole += 1
    return hole


@kernel
def move_group(pool: PostingPool, group: Any, start: int, size_class: int) -> None:
    """Copy the postings of a group to another block, which it has from now on."""
    old, old_room, room = np.int64(group.start), np.int64(block_room(group.room)), np.int64(block_room(size_class))
    for position in range(group.n):
        at, stride = place_of(old, old_room, position)
        to, to_stride = place_of(start, room, position)
        copy_posting(pool.ints, at, stride, pool.ints, to, to_stride)
    group.start, group.room = start, size_class
