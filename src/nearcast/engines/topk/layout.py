"""The subscription index as arrays: for each word its cells, their groups, and the postings of groups.

A **posting** is one word of a subscription. Postings of a word that lie near each other are a **cell**, a square of the
quadtree along a Hilbert curve; those in one place are spread over some cells at random, so that no cell grows without
end. A cell is cut into **groups** of subscriptions with about the same alpha; in a group
postings are sorted by their **key**, the share of a message's words from this one on that the subscription needs at
least, wherever the message lies. The groups of a word lie side by side, cell after cell; what concerns a whole cell is
in its first group.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.columns.arena import Array, Ints, Longs, record
from nearcast.space.hilbert import CURVE_BITS

Lanes = npt.NDArray[np.float32]

SPREAD_BITS = 14  # of a slot, that tell apart who lies in one place
CODE_BITS = 2 * CURVE_BITS + SPREAD_BITS

FACE = record(  # a subscription as it is filed, rounded: `face_of` in keys.py tells why it may
    ("x", "f4"),  # its point, see space/hilbert.py
    ("y", "f4"),
    ("z", "f4"),
    ("floor", "f4"),  # of its buffer when its postings were last filed
    ("alpha", "f4"),
)
LIST = record(  # of a word
    ("start", "i4"),  # its first group
    ("n_groups", "i4"),
    ("n", "i4"),  # postings
    ("built", "i4"),  # postings when it was cut into cells
)
GROUP = record(
    ("low", "f4"),  # from this alpha on
    ("tilt", "f4"),  # at most the least alpha / (1 - alpha)
    ("key", "f4"),  # the least key, infinite if there is none
    ("start", "i4"),  # its postings
    ("n", "i4"),
    ("room", "i4"),  # their size class
)
CELL = record(  # beside each group: its cell; all but `code` and `n_more` count beside the first group alone
    ("code", "i8"),  # from this code on, see `code_of` in keys.py
    ("x0", "f4"),  # a box around the points of the cell
    ("y0", "f4"),
    ("z0", "f4"),
    ("x1", "f4"),
    ("y1", "f4"),
    ("z1", "f4"),
    ("tilt", "f4"),  # the least of all groups of the cell
    ("key", "f4"),
    ("n_more", "i4"),  # groups of the cell after this one
)
# Fields of a posting, 32 bits each: all that the filter asks, so that it reads a group from end to end and no more.
# `postings.py` tells where they lie.
MARK = 0  # slot and, in the lowest bits, how many of the words after this one share a bit with another
BITS = 1  # of the subscription's words after this one
KEY = 2
LENGTHS = 3  # of the word in the subscription's unit vector, and of that vector after it from `AFTER_BITS` on, by WHOLE
POINT = 4  # x, y and z: the face
FLOOR = 7
ALPHA = 8
WIDTH = 9
LANES = 16  # postings that are compared at once
POSTING = record(*((f"number_{at}", "i4") for at in range(WIDTH)))  # its numbers, as far as blocks are concerned
PADDING = LANES  # numbers at the end of the pool: a strip is read as if it were full
AFTER_BITS = 16
WHOLE = 2**16 - 1
HIDDEN_BITS = 3
MANY = (1 << HIDDEN_BITS) - 1  # words, or more
N_BITS = 32  # that stand for words
CANDIDATE = record(
    ("near", "f8"),  # its spatial similarity, or more
    ("slot", "i4"),
    ("word", "i4"),  # which of the message's words found it
    ("floor", "f4"),
)
VISIT = record(  # of a group that is looked through for a message
    ("group", "i4"),
    ("word", "i4"),  # which of the message's words it is of
    ("last", "f4"),  # the largest key that is looked at
)

# positions in `work`
CELLS, CELLS_SKIPPED, GROUPS, GROUPS_SKIPPED, VISITED, CANDIDATES, VERIFIED, REFILED, BUILDS = range(9)
N_WORK = 9


class PostingPool(NamedTuple):
    """The postings of all groups, in one array that is seen in two ways."""

    ints: Ints  # int32[]
    lanes: Lanes  # float32[]: the same numbers


class SubscriptionLayout(NamedTuple):
    """The subscription index."""

    faces: Array  # FACE[n_slots]
    lists: Array  # LIST[n_terms]
    groups: Array  # GROUP[]
    cells: Array  # CELL[]: side by side with groups, of which many are read for one cell
    group_blocks: Longs  # int64[N_HEADS]: which of them are free, see blocks.py
    postings: PostingPool
    posting_blocks: Longs  # int64[N_HEADS]
    links: Array  # POSTING[]: the pool by postings, whose first numbers join free blocks
    work: Longs  # int64[N_WORK]
    dues: Array  # DUE[n_slots]; nothing while nobody's scores fade, see dues.py
    due_queue: Array  # QUEUED[]: a heap, the earliest first
    due_count: Longs  # int64[1]: its length


class Shape(NamedTuple):
    """How words are cut and searched, and where the curve runs."""

    cell: int  # most postings of a cell when it is cut
    groups: int  # of a full cell
    prune_groups: bool  # whether cells and groups are skipped as a whole
    metric: int
    x: float
    y: float
    x_scale: float
    y_scale: float
