"""The index as arrays: regions, leaves, their members with words, and their lists of members by word."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.columns.arena import Array, Floats, Ints, Longs, record
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.subscription_tables import PointLayout
from nearcast.space.space import SpaceInput

NODE = record(
    ("x0", "f8"),  # box around the points of all members below
    ("y0", "f8"),
    ("z0", "f8"),
    ("x1", "f8"),
    ("y1", "f8"),
    ("z1", "f8"),
    ("cut", "f8"),  # places below it along the axis belong to the first child
    ("parent", "i4"),
    ("low", "i4"),  # first child
    ("high", "i4"),  # second child
    ("axis", "i4"),  # BY_X, BY_Y, EITHER or LEAF
    ("leaf", "i4"),  # its leaf, if it is one
    ("least", "i4"),  # smallest bound of all entries below, FARTHEST if there are none
)

LEAF = record(
    ("west", "f8"),  # the region: places from west on and before east, from south on and before north
    ("south", "f8"),
    ("east", "f8"),
    ("north", "f8"),
    ("member_start", "i8"),
    ("word_start", "i8"),
    ("entry_start", "i8"),
    ("list_start", "i8"),
    ("node", "i4"),
    ("kind", "i4"),  # NEAR or ANYWHERE
    ("n_members", "i4"),  # living or dead
    ("n_listed", "i4"),  # the first of them are in the lists, the rest is tried one by one
    ("n_dead", "i4"),
    ("member_room", "i4"),
    ("n_words", "i4"),
    ("word_room", "i4"),
    ("n_entries", "i4"),
    ("entry_room", "i4"),
    ("n_lists", "i4"),  # places in the hash table
    ("list_room", "i4"),
    ("n_later", "i4"),  # entries of later words, in all lists
    ("star_outside", "i4"),  # the list of the dummy word comes first: entries for every message,
    ("star_inside", "i4"),  # then those for messages inside the region only
)

MEMBER = record(
    ("x", "f8"),  # its place, the longitude wrapped under haversine
    ("y", "f8"),
    ("delta", "f8"),
    ("weight", "f8"),  # of its words
    ("tau", "f4"),  # rounded
    ("slot", "i4"),
    ("word_start", "i4"),  # counted from the words of its leaf; they end where those of the next member start
    ("n_anywhere", "u2"),  # how many of its first words suffice from any distance
    ("mode", "u1"),
    ("state", "u1"),  # ALIVE, STAR, ENDS, ASKS: bits
)

LIST = record(
    ("term", "i4"),  # NO_TERM for an empty place of the hash table
    ("start", "i4"),  # counted from the entries of its leaf
    ("n_outside", "u2"),  # entries for every message,
    ("n_inside", "u2"),  # then those for messages inside the region only,
    ("n_later", "u2"),  # then those of later words, by level
    ("least", "u2"),  # smallest bound
)

HOME = record(("near", "u4"), ("anywhere", "u4"))  # where a subscription is filed: leaf * 65,536 + member, or NOWHERE

BY_X, BY_Y, EITHER, LEAF_AXIS = range(4)
NEAR, ANYWHERE = range(2)  # kinds of leaf, and the nodes that are their roots
FLAT, BY_REGION, BY_TEXT = 1, 2, 4  # flags: no regions; region-aware prefixes; spatio-textual prefixes
ALIVE, STAR, ENDS = 1, 2, 4  # a member was not removed; it is filed under the dummy word; it expires some day
ASKS = 8  # it has a condition
MOST_WORDS = 65534  # of a member that is filed by region
FARTHEST = 256  # above every bound
NO_TERM = -1
NOWHERE = 0xFFFFFFFF
MOST_MEMBERS = 65535  # of a leaf: entries have 16 bits for one
MOST_LEVELS = 15  # entries have 4 bits for their number

# An entry of a prefix: bound (8 bits), closed levels outside (4), inside (4), member (16). A later one: level, member.
BOUND_SHIFT, OUTSIDE_SHIFT, INSIDE_SHIFT, LOCAL_MASK = 24, 20, 16, 0xFFFF
MET_BY_STAR = 1 << 32  # above the entry of a candidate: the dummy word was the first to name it

# A word of a member: its rank in the order of bytes (4 bits), its term.
RANK_SHIFT, TERM_MASK, MOST_RANKED = 27, (1 << 27) - 1, 16

STRIP = 512  # members whose places are compared at once
MARKS = 8192  # a power of 2; that many bytes stay in the nearest cache

# positions in `counters`
N_ARRIVALS, N_ACCESSED, N_CANDIDATES, N_ANSWERS = range(4)
N_PRUNED, N_LEAVES, N_VERIFIED, N_FILTERED = range(4, 8)
N_COUNTERS = 8


class StampLayout(NamedTuple):
    """The whole index."""

    nodes: Array  # NODE[]: the two trees of regions
    leaves: Array  # LEAF[]
    members: Array  # MEMBER[]: those of a leaf side by side, in the order of `order_in_leaf`
    terms: Ints  # int32[]: words of each member, heaviest first, with their ranks
    entries: npt.NDArray[np.uint32]  # uint32[]
    lists: Array  # LIST[]: a hash table for each leaf
    homes: Array  # HOME[n_slots]


PROBE = record(
    ("lon", "f8"),  # wrapped under haversine
    ("lat", "f8"),
    ("cos_lat", "f8"),
    ("farthest", "f8"),  # squared half chord from which on the spatial similarity is 0
    ("x", "f8"),  # its point
    ("y", "f8"),
    ("z", "f8"),
    ("weight", "f8"),
    ("max_distance", "f8"),
    ("clock", "i8"),
    ("metric", "i4"),
    ("n_terms", "i4"),
    ("event", "i4"),
    ("message", "i4"),  # its slot
    ("strategy", "i4"),
)

NEAR_MEMBER = record(
    ("value", "f8"),  # its score, or its spatial similarity if its words must be looked at
    ("local", "i4"),  # its position in the leaf
    ("is_scored", "i4"),
)

TOKEN = record(
    ("term", "i4"),
    ("at", "i4"),  # its list in the leaf at hand, or -1
    ("n_outside", "i4"),  # entries read so far,
    ("n_inside", "i4"),
    ("n_later", "i4"),
)


class MatchInput(NamedTuple):
    """What matching reads besides the index."""

    messages: MessageLayout
    subscriptions: PointLayout
    idf: Floats
    space: SpaceInput


class BuildInput(NamedTuple):
    """What building reads besides the index."""

    subscriptions: PointLayout
    idf: Floats
    space: SpaceInput
    flags: int  # FLAT, BY_REGION, BY_TEXT: bits


class StampScratch(NamedTuple):
    """What matching works with; kept from one message to the next."""

    dense: Floats  # float64[n_terms]: the scattered message, all zeros between messages
    marks: npt.NDArray[np.uint8]  # uint8[MARKS]: 1 where a word of it is, by its number's last bits; zeros likewise
    probe: Array  # PROBE[1]: the message at hand
    words: Array  # WORD[]: its words, heaviest first
    tokens: Array  # TOKEN[]: the same, and how far their lists were read
    stack: Ints  # int32[]: nodes still to visit
    chosen: Longs  # int64[65,536]: entries of the candidates of a leaf
    near: Array  # NEAR_MEMBER[65,536]: members of the leaf whose places are near enough
    xs: Floats  # float64[STRIP]: longitudes of members, then their squared half chords
    ys: Floats  # float64[STRIP]: their latitudes
    ranked: Floats  # float64[MOST_RANKED]: weights of a member's words in the order of bytes
    counts: npt.NDArray[np.uint8]  # uint8[65,536]: words that each member of a leaf shares, all zeros between leaves
    counters: Longs  # int64[N_COUNTERS]
    before: Longs  # int64[N_COUNTERS]: the counters before the message at hand


class Matches(NamedTuple):
    """Room for matches of arrivals."""

    events: Ints  # int32[n]
    slots: Ints  # int32[n]
    scores: Floats  # float64[n]
