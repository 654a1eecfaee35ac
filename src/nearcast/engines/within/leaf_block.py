"""The block of a leaf: how its entries are packed for scanning, and how they come and go: kernels.

A block is a range of 64-byte lines: a header, the slots of its entries, and five bytes for each entry. Four of these
are the sides of its box as *codes*: the frame of the leaf, about the extent of its boxes, is cut into 254 strips each
way, 1 to 254; 0 is all before them, 255 all after them. Codes never change the order of coordinates, so that a place
whose code is strictly between those of a box lies in the box, one outside of them does not, and only a tie needs the
exact check. The fifth byte is a hash of one of the entry's words.

Where most entries ask for a number of the same field, the block is *ranged*: two more bytes of each entry are codes of
the smallest and the largest number that satisfy it, in a frame of their own. Who asks for no such number gets 0 and
255.

Entries stand in three groups. *Alone* are those of the block's one word that have no other, a plain box, and nothing
else to ask for but such a range: place, word and number decide. Then come those whose hash tells whether a word is
missing; the exact check decides about them. The last are clauses of subscriptions that have several; their byte is the
number of the clause. What a block says of an entry may only be too much, never too little: the exact check has the last
word.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Array
from nearcast.engines.within.entries import outward_box
from nearcast.engines.within.layout import (
    ASKS,
    BLOCK_SHAPE,
    BLOCK_WORD,
    BYTES_PER_RANGED_ROW,
    BYTES_PER_ROW,
    CLAUSE,
    FIELD,
    FIELD_HEADER,
    HEADER,
    IN_RANGE,
    INTS_PER_LINE,
    LOW_ORIGIN,
    LOW_SCALE,
    MANY,
    MORTAL,
    N_ALONE,
    N_HASHED,
    N_ROWS,
    N_WORDS,
    NO_WORD,
    NOTHING,
    OPEN_BITS,
    PLAIN,
    RANGED,
    WORD_BITS,
    X_ORIGIN,
    X_SCALE,
    Y_ORIGIN,
    Y_SCALE,
    Rectangle,
    TreeLayout,
)
from nearcast.jit import kernel

ALONE, HASHED, CLAUSES = range(3)  # the groups of a block
LAST_CODE = 255
_STRIPS = 253.99  # a little less than 254, so that the end of the frame is in the last strip
_NARROWEST, _FARTHEST = 1e-30, 3e38  # of a frame: its scale and its ends are float32
_MULTIPLIER = 2654435761  # spreads the numbers of terms over bytes
_BYTES_PER_LINE = 4 * INTS_PER_LINE


@kernel
def rows_in_lines(n_lines: int, ranged: bool) -> Any:
    """How many entries a block of this many lines has room for."""
    if ranged:
        return (_BYTES_PER_LINE * n_lines - 4 * (HEADER + FIELD_HEADER)) // BYTES_PER_RANGED_ROW
    return (_BYTES_PER_LINE * n_lines - 4 * HEADER) // BYTES_PER_ROW


@kernel
def lines_for(n_rows: int, ranged: bool) -> Any:
    """The lines that a block for this many entries needs."""
    n_bytes = 4 * HEADER + BYTES_PER_ROW * n_rows
    if ranged:
        n_bytes = 4 * (HEADER + FIELD_HEADER) + BYTES_PER_RANGED_ROW * n_rows
    return (n_bytes + _BYTES_PER_LINE - 1) // _BYTES_PER_LINE


@kernel
def is_ranged(shape: int) -> Any:
    """Does a block of this BLOCK_SHAPE have codes of ranges?"""
    return shape & RANGED != 0


@kernel
def room_of(shape: int) -> Any:
    """How many entries a block of this BLOCK_SHAPE has room for."""
    return (shape & (RANGED - 1)) >> OPEN_BITS


@kernel
def field_at(ints: Any, block: int) -> Any:
    """Where a ranged block has its field, and the frame of its numbers behind it."""
    return block + HEADER + room_of(ints[block + BLOCK_SHAPE])


@kernel
def hash_of(term: int) -> Any:
    """The byte of a word."""
    return np.int64(term) * _MULTIPLIER >> 16 & 255


@kernel
def code_of(value: Any, origin: Any, scale: Any) -> Any:
    """The strip of a coordinate. Never smaller for a larger one."""
    strip = (float(value) - float(origin)) * float(scale)
    return int(min(max(strip + 1.0, 0.0), 255.0))


@kernel
def has_codes_past(x0: int, y0: int, x1: int, y1: int) -> Any:
    """Which sides of a box are past the frame, as bits."""
    return (x0 == 0) | (y0 == 0) << 1 | (x1 == LAST_CODE) << 2 | (y1 == LAST_CODE) << 3


@kernel
def first_byte(ints: Any, block: int) -> Any:
    """Where the codes of x0 begin; those of y0, x1, y1 and the hashes follow, each as long as the block has room.

    After the hashes come the codes of the smallest and the largest numbers, if any.
    """
    shape = ints[block + BLOCK_SHAPE]
    return 4 * (block + HEADER + room_of(shape) + (FIELD_HEADER if is_ranged(shape) else 0))


@kernel
def add_to_extent(extent: Rectangle, x0: float, y0: float, x1: float, y1: float) -> Rectangle:
    """The extent, made so large that it holds the finite sides of a box."""
    return Rectangle(
        min(extent.x0, x0) if x0 > -np.inf else extent.x0,
        min(extent.y0, y0) if y0 > -np.inf else extent.y0,
        max(extent.x1, x1) if x1 < np.inf else extent.x1,
        max(extent.y1, y1) if y1 < np.inf else extent.y1,
    )


@kernel
def write_scale(tree: TreeLayout, block: int, origin: int, scale: int, low: float, high: float) -> None:
    """Write one dimension of a frame."""
    low, high = max(low, -_FARTHEST), min(high, _FARTHEST)
    if low > high:
        low, high = -_FARTHEST, _FARTHEST
    tree.floats[block + origin] = low
    tree.floats[block + scale] = _STRIPS / max(high - low, _NARROWEST)


@kernel
def write_numbers_frame(tree: TreeLayout, block: int, entries: Array, start: int, n_rows: int) -> None:
    """Write the frame of the numbers that the entries of a ranged block ask for."""
    at = field_at(tree.ints, block)
    low, high = np.inf, -np.inf
    for i in range(start, start + n_rows):
        entry = entries[i]
        if entry.field == tree.ints[at + FIELD]:
            for number in (entry.low, entry.high):
                if abs(number) < np.inf:
                    low, high = min(low, number), max(high, number)
    write_scale(tree, at, LOW_ORIGIN, LOW_SCALE, low, high)


@kernel
def write_numbers(tree: TreeLayout, block: int, i: int, entry: Any) -> None:
    """Write the codes of the i-th entry's numbers, if the block has any."""
    shape = tree.ints[block + BLOCK_SHAPE]
    if not is_ranged(shape):
        return
    at, codes = field_at(tree.ints, block), first_byte(tree.ints, block) + 5 * room_of(shape) + i
    low, high = 0, LAST_CODE
    if entry.field == tree.ints[at + FIELD]:
        origin, scale = tree.floats[at + LOW_ORIGIN], tree.floats[at + LOW_SCALE]
        low, high = code_of(entry.low, origin, scale), code_of(entry.high, origin, scale)
    tree.bytes[codes], tree.bytes[codes + room_of(shape)] = low, high


@kernel
def common_field(entries: Array, start: int, n_rows: int) -> Any:
    """The field that most of the entries from `start` on ask a number of, or NO_WORD."""
    field, votes, n = NO_WORD, 0, 0
    for i in range(start, start + n_rows):
        if votes == 0:
            field = entries[i].field
        votes += 1 if entries[i].field == field else -1
    for i in range(start, start + n_rows):
        n += entries[i].field == field
    return field if 2 * n > n_rows else NO_WORD


@kernel
def write_frame(tree: TreeLayout, block: int, extent: Rectangle, region: Rectangle) -> None:
    """Write the frame of a block: what of the extent of its boxes lies in the region of the leaf."""
    write_scale(tree, block, X_ORIGIN, X_SCALE, max(extent.x0, region.x0), min(extent.x1, region.x1))
    write_scale(tree, block, Y_ORIGIN, Y_SCALE, max(extent.y0, region.y0), min(extent.y1, region.y1))


@kernel
def empty_block(tree: TreeLayout, block: int, n_lines: int, field: int) -> None:
    """Begin a block, which is ranged if there is a field; its frames are yet to be written."""
    ints = tree.ints
    if field == NO_WORD:
        ints[block + BLOCK_SHAPE] = rows_in_lines(n_lines, False) << OPEN_BITS
    else:
        ints[block + BLOCK_SHAPE] = rows_in_lines(n_lines, True) << OPEN_BITS | RANGED
        ints[field_at(ints, block) + FIELD] = field
    ints[block + BLOCK_WORD] = NO_WORD
    ints[block + N_ALONE] = ints[block + N_HASHED] = ints[block + N_ROWS] = 0


@kernel
def write_box(tree: TreeLayout, block: int, i: int, x0: float, y0: float, x1: float, y1: float) -> None:
    """Write the codes of the i-th entry's box."""
    ints, floats, codes = tree.ints, tree.floats, tree.bytes
    room = room_of(ints[block + BLOCK_SHAPE])
    at = first_byte(ints, block) + i
    x, y, x_scale, y_scale = (
        floats[block + X_ORIGIN], floats[block + Y_ORIGIN], floats[block + X_SCALE], floats[block + Y_SCALE],
    )  # fmt: skip
    left, bottom = code_of(x0, x, x_scale), code_of(y0, y, y_scale)
    right, top = code_of(x1, x, x_scale), code_of(y1, y, y_scale)
    codes[at], codes[at + room], codes[at + 2 * room], codes[at + 3 * room] = left, bottom, right, top
    ints[block + BLOCK_SHAPE] |= has_codes_past(left, bottom, right, top)


@kernel
def can_decide_alone(tags: int, in_range: bool) -> Any:
    """Is an entry one word in a plain box? If a block knows its range, that may be asked for too."""
    decides = tags & (PLAIN | MORTAL | MANY) == PLAIN and (tags & ASKS == 0 or (in_range and tags & IN_RANGE != 0))
    return decides & (tags >> N_WORDS & WORD_BITS == 1)


@kernel
def stands_alone(tree: TreeLayout, block: int, entry: Any) -> Any:
    """Can an entry decide alone in a block?"""
    in_range = False
    if is_ranged(tree.ints[block + BLOCK_SHAPE]):
        in_range = entry.field == tree.ints[field_at(tree.ints, block) + FIELD]
    return can_decide_alone(entry.tags, in_range)


@kernel
def byte_of(entry: Any, word: int) -> Any:
    """The fifth byte of an entry in the block of a word."""
    if entry.tags & MANY:
        return entry.tags & CLAUSE
    return hash_of(entry.word1 if entry.word0 == word and entry.word1 != NO_WORD else entry.word0)


@kernel
def n_codes_of(shape: int) -> Any:
    """How many bytes of an entry a block has."""
    return 7 if is_ranged(shape) else 5


@kernel
def copy_row(tree: TreeLayout, block: int, to: int, source: int) -> None:
    """Copy an entry to another place in its block."""
    ints, codes = tree.ints, tree.bytes
    room, n_codes = room_of(ints[block + BLOCK_SHAPE]), n_codes_of(ints[block + BLOCK_SHAPE])
    ints[block + HEADER + to] = ints[block + HEADER + source]
    at = first_byte(ints, block)
    for i in range(n_codes):
        codes[at + i * room + to] = codes[at + i * room + source]


@kernel
def append_row(tree: TreeLayout, block: int, entry: Any) -> None:
    """Add an entry at the end of its group; there is room."""
    ints = tree.ints
    n_alone, n_hashed, n = ints[block + N_ALONE], ints[block + N_HASHED], ints[block + N_ROWS]
    at = n
    alone = stands_alone(tree, block, entry)
    if alone and n_alone == 0:
        ints[block + BLOCK_WORD] = entry.word0
    alone = alone and ints[block + BLOCK_WORD] == entry.word0
    if not entry.tags & MANY:
        if n > n_alone + n_hashed:
            copy_row(tree, block, n, n_alone + n_hashed)
        at = n_alone + n_hashed
        if alone:
            if n_hashed > 0:
                copy_row(tree, block, at, n_alone)
            at = n_alone
            ints[block + N_ALONE] = n_alone + 1
        else:
            ints[block + N_HASHED] = n_hashed + 1
    ints[block + N_ROWS] = n + 1
    ints[block + HEADER + at] = entry.slot
    room = room_of(ints[block + BLOCK_SHAPE])
    tree.bytes[first_byte(ints, block) + 4 * room + at] = byte_of(entry, ints[block + BLOCK_WORD])
    write_box(tree, block, at, entry.x0, entry.y0, entry.x1, entry.y1)
    write_numbers(tree, block, at, entry)


@kernel
def remove_row(tree: TreeLayout, block: int, i: int) -> None:
    """Remove the i-th entry. Later ones take its place, none of those before it moves."""
    ints = tree.ints
    n_alone, n_hashed, n = ints[block + N_ALONE], ints[block + N_HASHED], ints[block + N_ROWS]
    hole = i
    if hole < n_alone:
        copy_row(tree, block, hole, n_alone - 1)
        hole = n_alone - 1
        ints[block + N_ALONE] = n_alone - 1
        if n_hashed > 0:
            copy_row(tree, block, hole, n_alone + n_hashed - 1)
            hole = n_alone + n_hashed - 1
    elif hole < n_alone + n_hashed:
        copy_row(tree, block, hole, n_alone + n_hashed - 1)
        hole = n_alone + n_hashed - 1
        ints[block + N_HASHED] = n_hashed - 1
    if hole < n - 1:
        copy_row(tree, block, hole, n - 1)
    ints[block + N_ROWS] = n - 1


@kernel
def rewrite_row(tree: TreeLayout, block: int, i: int, entry: Any) -> None:
    """Write the i-th entry again after its region changed; one that decides alone no more leaves that group."""
    ints = tree.ints
    n_alone = ints[block + N_ALONE]
    if i < n_alone and not stands_alone(tree, block, entry):
        room = room_of(ints[block + BLOCK_SHAPE])
        copy_row(tree, block, i, n_alone - 1)
        i = n_alone - 1
        ints[block + N_ALONE], ints[block + N_HASHED] = i, ints[block + N_HASHED] + 1
        ints[block + HEADER + i] = entry.slot
        tree.bytes[first_byte(ints, block) + 4 * room + i] = byte_of(entry, ints[block + BLOCK_WORD])
        write_numbers(tree, block, i, entry)
    write_box(tree, block, i, entry.x0, entry.y0, entry.x1, entry.y1)


@kernel
def clause_at(tree: TreeLayout, block: int, i: int) -> Any:
    """The number of the clause that the i-th entry is."""
    ints = tree.ints
    if i < ints[block + N_ALONE] + ints[block + N_HASHED]:
        return 0
    return tree.bytes[first_byte(ints, block) + 4 * room_of(ints[block + BLOCK_SHAPE]) + i]


@kernel
def position_of(tree: TreeLayout, block: int, slot: int, clause: int) -> int:
    """Which entry of a block is the clause of a subscription."""
    ints = tree.ints
    for i in range(ints[block + N_ROWS]):
        if ints[block + HEADER + i] == slot and clause_at(tree, block, i) == clause:
            return i
    return NOTHING


@kernel
def fill_block(tree: TreeLayout, block: int, entries: Array, start: int, n_rows: int, region: Rectangle) -> None:
    """Write `n_rows` of the entries, from `start` on, into a block that is empty.

    Its word is the commonest of those that decide alone, or of all if none does: the hashes are of other words then.
    """
    extent = Rectangle(np.inf, np.inf, -np.inf, -np.inf)
    word, votes, n_alone, any_word, any_votes = NO_WORD, 0, 0, NO_WORD, 0
    for i in range(start, start + n_rows):
        entry = entries[i]
        extent = add_to_extent(extent, entry.x0, entry.y0, entry.x1, entry.y1)
        if any_votes == 0:
            any_word = entry.word0
        any_votes += 1 if entry.word0 == any_word else -1
        if stands_alone(tree, block, entry):
            if votes == 0:
                word = entry.word0
            votes += 1 if entry.word0 == word else -1
            n_alone += 1
    write_frame(tree, block, extent, region)
    if is_ranged(tree.ints[block + BLOCK_SHAPE]):
        write_numbers_frame(tree, block, entries, start, n_rows)
    tree.ints[block + BLOCK_WORD] = word = word if n_alone > 0 else any_word
    for turn in range(2):  # that word comes first, since the first one alone becomes the block's
        for i in range(start, start + n_rows):
            if (stands_alone(tree, block, entries[i]) and entries[i].word0 == word) == (turn == 0):
                append_row(tree, block, entries[i])


@kernel
def copy_block(tree: TreeLayout, to: int, block: int, rows: Array, region: Rectangle) -> None:
    """Copy the entries of a block to one that is empty, has more room, and is ranged if the block is.

    The frame is for the boxes as they are.
    """
    ints, codes = tree.ints, tree.bytes
    n = ints[block + N_ROWS]
    extent = Rectangle(np.inf, np.inf, -np.inf, -np.inf)
    for i in range(n):
        x0, y0, x1, y1 = outward_box(rows[ints[block + HEADER + i]])
        extent = add_to_extent(extent, x0, y0, x1, y1)
    write_frame(tree, to, extent, region)
    for at in (BLOCK_WORD, N_ALONE, N_HASHED, N_ROWS):
        ints[to + at] = ints[block + at]
    old_room, room = room_of(ints[block + BLOCK_SHAPE]), room_of(ints[to + BLOCK_SHAPE])
    source, target = first_byte(ints, block) + 4 * old_room, first_byte(ints, to) + 4 * room
    if is_ranged(ints[block + BLOCK_SHAPE]):
        for i in range(FIELD_HEADER):
            ints[field_at(ints, to) + i] = ints[field_at(ints, block) + i]
    for i in range(n):
        slot = ints[block + HEADER + i]
        ints[to + HEADER + i] = slot
        for j in range(n_codes_of(ints[block + BLOCK_SHAPE]) - 4):
            codes[target + j * room + i] = codes[source + j * old_room + i]
        x0, y0, x1, y1 = outward_box(rows[slot])
        write_box(tree, to, i, x0, y0, x1, y1)
