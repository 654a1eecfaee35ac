"""The tree as arrays: nodes, their parts (cuts or cells), leaves, and the entries that leaves hold.

A part is where something hangs: nothing, a leaf, or a node. Part 0 is where the root hangs. The parts of a node lie
side by side: first the dummy (words exhausted, or region covered), then cuts in the order of words or cells row by
row. An entry is one clause of a subscription as filing needs it: a box rounded outward to float32, and its rarest
words. What a leaf keeps of it is in its block (`leaf_block`); all else is in the table of subscriptions, once.
"""

from __future__ import annotations

from typing import NamedTuple

from nearcast.columns.arena import Array, Ints, Longs, record

KEYWORD, SPACE = range(2)  # kinds of nodes
NOTHING = -1  # the child of an empty part; nodes are 0, 1, ...; leaves -2, -3, ...
NO_NODE = -1
ROOT = 0  # the part where the root hangs
NO_WORD = -1
UNRANKED, LAST_RANK = -(2**31), 2**31 - 1  # the rank of a term that no subscription asks for; one after all others
BY_WORDS, BY_SPACE = 1, 2  # flags: what may still be partitioned (the paper's kP and sP)

NODE = record(  # what a message needs comes first
    ("kind", "i4"),
    ("offset", "i4"),  # l, from 0: which word of a subscription a keyword node looks at
    ("first", "i4"),  # its dummy part
    ("n_parts", "i4"),  # the others
    ("n_columns", "i4"),  # of a grid
    ("n_rows", "i4"),
    ("has_dummy", "i4"),  # does anything hang below its dummy part?
    ("ways", "i4"),
    ("part", "i4"),  # where it hangs
    ("n_changes", "i4"),  # entries inserted and removed since drift was last looked at
    ("depth", "i4"),
    ("x0", "f8"),  # its region, half open; infinite at the outside
    ("y0", "f8"),
    ("x1", "f8"),
    ("y1", "f8"),
    ("since", "i8"),  # lists of messages beneath are complete for larger sequences only
)

PART = record(
    ("child", "i4"),
    ("low", "i4"),  # ranks of the first and last word of a cut; those between two cuts belong to neither
    ("high", "i4"),
    ("built", "i4"),  # weight, its number of entries, when the node was built
    ("now", "i4"),  # weight now
    ("start", "i4"),  # the first line of the block of the leaf below, or the first part of the node below
    ("node", "i4"),  # whose part it is
)

LEAF = record(
    ("message_start", "i8"),  # its list of messages
    ("since", "i8"),  # which is complete for larger sequences only
    ("room", "i4"),  # size class of its block
    ("n_messages", "i4"),
    ("message_room", "i4"),  # size class of its list
    ("part", "i4"),  # where it hangs
    ("tried", "i4"),  # the size at which partitioning was found not to pay
    ("caught_up", "i4"),  # the last round of catching up that reached it
)

ENTRY = record(
    ("x0", "f4"),
    ("y0", "f4"),
    ("x1", "f4"),
    ("y1", "f4"),
    ("slot", "i4"),
    ("tags", "i4"),  # number of the clause, and what decides about it
    ("word0", "i4"),  # positive terms of the clause, rarest first, or NO_WORD
    ("word1", "i4"),
    ("word2", "i4"),
    ("word3", "i4"),
    ("low", "f4"),  # of the number that its condition needs, rounded outward
    ("high", "f4"),
    ("field", "i4"),  # term of the name of that number, or NO_WORD
)
BLUR, TINY = 2.4e-7, 1e-37  # a float32 box is off by less than this share of a coordinate, or than this near zero
N_STEERING = 4  # words that an entry is filed by; a clause's other words are only verified

CLAUSE = 0xFF  # the number of the clause
PLAIN = 0x100  # a box and at most N_STEERING words, none negated: these decide, but for a condition
MANY = 0x200  # one of several clauses: the subscription may be found more than once
MORTAL = 0x400  # the subscription expires
ASKS = 0x800  # the subscription has a condition that the words of the entry do not decide
IN_RANGE = 0x8000  # any number between `low` and `high` satisfies that condition
N_WORDS = 12  # three bits from here on: the number of words
WORD_BITS = 7

# A block: four float32 and five int32, then int32[room] slots, then uint8[5, room] codes and hashes. A ranged one has
# a term and two float32 after its slots, and uint8[7, room].
X_ORIGIN, Y_ORIGIN, X_SCALE, Y_SCALE, BLOCK_WORD, N_ALONE, N_HASHED, N_ROWS, BLOCK_SHAPE = range(9)
HEADER = 9
OPEN_BITS = 4  # of BLOCK_SHAPE: is there a box past the frame at the left, bottom, right, top? Above them its room
RANGED = 1 << 30  # of BLOCK_SHAPE: do codes tell ranges of a number too?
FIELD, LOW_ORIGIN, LOW_SCALE = range(3)  # of a ranged block, after its slots
FIELD_HEADER = 3
BYTES_PER_ROW, BYTES_PER_RANGED_ROW = 9, 11
INTS_PER_LINE = 16  # blocks are made of lines of 64 bytes

N_NODES, N_LEAVES, N_PARTS, N_LINES, N_LISTED, FREE_NODE, FREE_LEAF, FREE_PARTS = range(8)  # positions in `heads`
N_CLASSES = 56  # from FREE_PARTS on the first free range of each size class
FREE_LINES = FREE_PARTS + N_CLASSES
FREE_LISTS = FREE_LINES + N_CLASSES
LISTED_ROWS = FREE_LISTS + N_CLASSES  # messages in all lists together
SWEPT = LISTED_ROWS + 1  # how many of them were left when expired messages were last dropped everywhere
SWEEP = SWEPT + 1  # the leaf where the next sweep resumes, or NOTHING
CATCH_UP = SWEEP + 1  # how many rounds of catching up were begun
CURSOR = CATCH_UP + 1  # the message where the round resumes, or NOTHING
UP_TO = CURSOR + 1  # the round completes lists that are incomplete up to this sequence at most
VERSION = UP_TO + 1  # grows with every change of nodes and of the words of cuts
N_HEADS = VERSION + 1


class Rectangle(NamedTuple):
    """A part of the plane: the region of a node or cell, or the extent of some boxes."""

    x0: float
    y0: float
    x1: float
    y1: float


LISTED = record(  # a message in a leaf's list
    ("x", "f4"),  # rounded; NaN for a longitude that is not in [-180, 180) under haversine
    ("y", "f4"),
    ("slot", "i4"),
    ("mark", "i4"),  # its sequence modulo 2**31
)


class TreeLayout(NamedTuple):
    """An AP-Tree."""

    heads: Longs  # int64[N_HEADS]: what is used, and the first free range of each size
    nodes: Array  # NODE[]
    parts: Array  # PART[]
    highs: Ints  # int32[n_parts]: last rank that belongs to a cut or to the gap after it; beside `parts`
    lines: Array  # float32[n_parts + LANES]: a grid's x lines, then its y lines; beside the parts of its node
    leaves: Array  # LEAF[]
    bytes: Array  # uint8[]: the blocks of leaves
    ints: Ints  # int32[]: the same memory
    floats: Array  # float32[]: the same memory
    listed: Array  # LISTED[]: messages
