"""The AOIQ-tree as arrays: prefixes of words, lists by node and prefix, their blocks, and the entries of blocks.

A subscription's words stand in an order of their own, rarest first. Its first m words are its **prefix**; a prefix has
a number, found word by word. A node of the quadtree has one list for each prefix that is filed there, and a list is a
chain of blocks. Block 0 holds those whose words all are in the prefix; the others are for intervals of the word after
the prefix, in order, and never overlap. Most lists have one entry only: they are **single**, and need no block.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs, record
from nearcast.jit import kernel

NOTHING = -1
UNRANKED = -(2**31)  # the rank of a word that nobody asks for
DEEPEST = 12  # level of the deepest nodes that there can be
MOST_WORDS = 5  # of a prefix
MOST_NODES = 16  # that one subscription is filed in
MOST_BLOCKS = 64  # of a list
CHILDREN = 1 << 13  # beside the levels of a prefix: longer ones begin with it
SINGLE = 1 << 30  # beside the position of an entry that is a list by itself, where blocks are named

PREFIX = record(
    ("levels", "i2"),  # bit l: there may be a list at level l
    ("coming", "i2"),  # the same, of the lists that were made or looked at since `levels` were last made
    ("n_uses", "i4"),  # lists and longer prefixes; -2 - the next one in the chain of free ones
    ("hits", "i4"),  # messages that held it
)
BLOCK = record(
    ("start", "i4"),  # its entries
    ("n_rows", "i4"),
    ("size_class", "i4"),  # of its range, see blocks.py; NOTHING if it has none
    ("low", "i4"),  # ranks of the first and the last word after the prefix, UNRANKED for block 0
    ("high", "i4"),
    ("next", "i4"),  # or NOTHING; also in the chain of free blocks
    ("n_words", "i4"),  # that made the interval, and their probabilities
    ("p_most", "f4"),
    ("p_sum", "f4"),
)
ENTRY = record(("slot", "i4"), ("generation", "i4"))

N_PREFIXES, N_LISTS, N_BLOCKS, N_DEAD, N_SEEN = range(5)  # positions in `heads`: what is used, and messages seen
FREE_PREFIX, FREE_BLOCK = range(5, 7)  # the first of each chain, or NOTHING
SWEPT, SWEPT_KEYS, SWEPT_FIRSTS = range(7, 10)  # cursors through lists, prefixes by key, and prefixes of one word
PROBED, TOUCHED, CANDIDATES, UNLINKED, REVIVED = range(10, 15)  # and counts of work
N_HEADS = 15

HISTOGRAM = 6  # level down to which messages are counted by cell


class EventRange(NamedTuple):
    """Events of a batch, by position."""

    first: int
    end: int  # the event after the last one


class Node(NamedTuple):
    """A node of the quadtree."""

    level: int
    column: int
    row: int


class NextWord(NamedTuple):
    """The word after a subscription's prefix."""

    rank: int  # UNRANKED if there is none
    p: float  # probability that a message holds it, 1 if there is none
    p_prefix: float  # probability that a message holds the prefix


class TreeShape(NamedTuple):
    """Parameters of the tree: m, Theta_h and Theta_U of the paper."""

    n_prefix: int  # words of a prefix
    height: int  # level of the deepest nodes
    update_ratio: float  # what an update costs, where verifying one subscription costs 1


class TreeLayout(NamedTuple):
    """An AOIQ-tree."""

    heads: Longs  # int64[N_HEADS]
    firsts: Ints  # int32[n_terms]: number of the prefix of this one word, or NOTHING
    prefix_keys: Longs  # int64[]: prefix and its next word, + 1; 0 where there is none
    prefix_ids: Ints  # int32: beside it, the longer prefix
    prefixes: Array  # PREFIX[]
    list_keys: Longs  # int64[]: node and prefix, + 1; 0 where there is none
    list_heads: Ints  # int32: beside it, the first block; ~ the entry of a single list
    blocks: Array  # BLOCK[]
    entries: Array  # ENTRY[]
    ranges: Longs  # int64[blocks.N_HEADS]: which of them are free


class Habits(NamedTuple):
    """What messages were like lately."""

    ranks: Ints  # int32[n_terms]: the order of words, UNRANKED where nobody asks for it
    seen: Ints  # int32[n_terms]: messages that held each word
    cells: Ints  # int32[]: messages in each cell of each level up to HISTOGRAM, one level after another


@kernel
def home_of(keys: Longs, key: int) -> int:
    """The place where a key is looked for first."""
    mixed = (key & 0x7FFFFFFF) * 0x2C9277B5 ^ (key >> 31) * 0x5F356495
    return (((mixed ^ (mixed >> 29)) & 0x7FFFFFFF) * keys.size) >> 31


@kernel
def place_of(keys: Longs, key: int) -> int:
    """Where a key is, or would be."""
    place = home_of(keys, key)
    while keys[place] != 0 and keys[place] != key + 1:
        place += 1
        if place == keys.size:
            place = 0
    return place


@kernel
def remove_key(keys: Longs, values: Ints, at: int) -> None:
    """Leave the place of a key; those that were put farther from their homes because of it come closer."""
    gap, place = at, at
    while True:
        place += 1
        if place == keys.size:
            place = 0
        if keys[place] == 0:
            break
        if (place - home_of(keys, keys[place] - 1)) % keys.size >= (place - gap) % keys.size:
            keys[gap], values[gap] = keys[place], values[place]
            gap = place
    keys[gap] = 0


@kernel
def pair_key(left: int, right: int) -> Any:
    """One number for two of 31 bits."""
    return np.int64(left) << 31 | np.int64(right)


@kernel
def node_code(level: int, column: int, row: int) -> Any:
    """One number for a node of any level."""
    return ((np.int64(1) << level | row) << level) | column


@kernel
def level_of_node(code: int) -> int:
    """The level of the node with this code."""
    level = 0
    while code >> (2 * level + 2):
        level += 1
    return level


@kernel
def first_cell(level: int) -> int:
    """Where the cells of a level begin in `cells`."""
    return ((1 << 2 * level) - 1) // 3


@kernel
def share_of(cells: Ints, level: int, column: int, row: int) -> Any:
    """The share of messages that fall into a node; below the histogram they are taken to lie evenly."""
    known = min(level, HISTOGRAM)
    up = level - known
    n = cells[first_cell(known) + ((row >> up) << known) + (column >> up)]
    return (n + 0.25) / (cells[0] + 1.0) / (1 << 2 * up)


@kernel
def chance_of(seen: Ints, n_seen: int, term: int) -> Any:
    """The probability that a message holds a word."""
    return (seen[term] + 1.0) / (n_seen + 2.0)
