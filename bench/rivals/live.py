"""Live messages in lists by word and cell, for rivals whose subscriptions move: kernels and `LiveLists`.

A message is filed under each of its words, once for every level at which that word's subscriptions are filed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bench.rivals.cells import DEEPEST, level_of, pack
from bench.rivals.clauses import SURE, Entries, first_clause
from bench.rivals.lists import NO_KEY, NOT_THERE, Lists, claim_head, enlarge, find_head
from bench.rivals.match import MATCHED, TOUCHED, VERIFIED, mark, satisfied
from nearcast.columns.arena import Array, Ints, Longs, record, with_room
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.subscription_tables import WithinLayout, in_region
from nearcast.jit import kernel
from nearcast.space.cells import cell_index
from nearcast.window.window import is_live

GRID = 30  # the level of a uniform grid, 40 x 40
GRID_SIDE = 40
_TAG = 0x7FFFFFFF  # what is kept of a sequence

LIVE = record(("slot", "i4"), ("tag", "i4"))


class Levels(NamedTuple):
    """At which levels messages are filed, as bits."""

    bounds: tuple[float, float, float, float]
    always: int  # for every word
    masks: Ints  # int32[n_terms]: and for each


class Search(NamedTuple):
    """Entries whose messages are wanted: those in the region here, and not in the one there."""

    keys: Longs
    owners: Ints  # int32[n_keys]: entry of each key
    entries: Entries
    here: WithinLayout
    here_at: Ints  # int32[]: row of each subscription in `here`
    there: WithinLayout
    there_at: Ints  # the same in `there`; empty if nothing is left out


class Found(NamedTuple):
    """Room for what was found, and counters."""

    present: Array  # uint8[n_terms]
    slots: Ints
    messages: Ints
    counters: Longs


@kernel
def key_at(bounds, word, level, x, y):
    """The key of a place at a level."""
    side = GRID_SIDE if level == GRID else 1 << level
    row = cell_index(bounds[1], bounds[3], side, y)
    return pack(word, level, row, cell_index(bounds[0], bounds[2], side, x))


@kernel
def hold_messages(slots, messages, levels, keys, owners):
    """Keys under which messages are filed; returns how many, for which there is room."""
    bounds, side = levels.bounds, 1 << DEEPEST
    n = 0
    for i in range(slots.size):
        message = messages.rows[slots[i]]
        column = cell_index(bounds[0], bounds[2], side, message.x)
        row = cell_index(bounds[1], bounds[3], side, message.y)
        for at in range(message.term_start, message.term_start + message.n_terms):
            word = messages.terms[at]
            mask = levels.always
            if word < levels.masks.size:
                mask |= levels.masks[word]
            for level in range(DEEPEST + 1):
                if mask >> level & 1:
                    up = DEEPEST - level
                    keys[n], owners[n] = pack(word, level, row >> up, column >> up), i
                    n += 1
            if mask >> GRID & 1:
                keys[n], owners[n] = key_at(bounds, word, GRID, message.x, message.y), i
                n += 1
    return n


@kernel
def note_levels_of(keys, levels, fresh):
    """Remember the levels of keys; writes a key of each word and level that is new. Returns how many."""
    n = 0
    for key in keys:
        bit = 1 << level_of(key)
        word = key >> 29
        if (levels.masks[word] | levels.always) & bit == 0:
            levels.masks[word] |= bit
            fresh[n] = key
            n += 1
    return n


@kernel
def hold_at_levels(fresh, lists, messages, bounds, keys, owners, slots):
    """Keys of the messages that hold a word, at a level that is new for it; returns how many, or minus the room needed.

    All messages with a word are in its root list.
    """
    n = 0
    for key in fresh:
        at = find_head(lists.heads, pack(key >> 29, 0, 0, 0))
        if at == NOT_THERE:
            continue
        head = lists.heads[at]
        for row in range(head.start, head.start + head.n):
            slot = lists.rows[row].slot
            if messages.rows[slot].sequence & _TAG != lists.rows[row].tag or messages.rows[slot].sequence == 0:
                continue
            if n < keys.size:
                message = messages.rows[slot]
                keys[n] = key_at(bounds, key >> 29, level_of(key), message.x, message.y)
                owners[n], slots[n] = n, slot
            n += 1
    return n if n <= keys.size else -n


@kernel
def append_live(heads, keys, owners, source, rows, messages, first, tally):
    """As `lists.append_rows`; a list that is full is rid of the messages that are gone before it grows."""
    for i in range(first, keys.size):
        at = claim_head(heads, keys[i])
        if heads[at].key == NO_KEY:
            heads[at].key, heads[at].n, heads[at].room = keys[i], 0, 0
            tally[2] += 1
        if heads[at].n == heads[at].room:
            kept = heads[at].start
            for row in range(heads[at].start, heads[at].start + heads[at].n):
                sequence = messages.rows[rows[row].slot].sequence
                if sequence != 0 and sequence & _TAG == rows[row].tag:
                    rows[kept] = rows[row]
                    kept += 1
            heads[at].n = kept - heads[at].start
            if 2 * heads[at].n >= heads[at].room and not enlarge(heads, at, rows, 1, tally):
                return i
        rows[heads[at].start + heads[at].n] = source[owners[i]]
        heads[at].n += 1
    return keys.size


@kernel
def search_lists(first, search, lists, messages, metric, moment, found):
    """Live messages of entries from key `first` on; returns the key to go on with and the number written.

    Paper: [APTREE] algorithm 6, decided message by message: in the one region and not in the other.
    """
    n = 0
    present, here, there = found.present, search.here, search.there
    for i in range(first, search.keys.size):
        at = find_head(lists.heads, search.keys[i])
        if at == NOT_THERE:
            continue
        head = lists.heads[at]
        if n + head.n > found.slots.size:
            return i, n
        entry = search.entries.rows[search.owners[i]]
        subscription = search.entries.rows_at[search.owners[i]]
        own = search.here_at[subscription]
        row = here.rows[own]
        found.counters[TOUCHED] += head.n
        for j in range(head.start, head.start + head.n):
            slot = lists.rows[j].slot
            message = messages.rows[slot]
            x, y = message.x, message.y
            if not (entry.x0 <= x <= entry.x1 and entry.y0 <= y <= entry.y1):
                continue
            if message.sequence & _TAG != lists.rows[j].tag or message.sequence <= row.since:
                continue
            if not is_live(message, moment[0], moment[1], moment[2]) or not in_region(here, own, metric, x, y):
                continue
            if not satisfied(here, own, messages.fields, slot):
                continue
            if search.there_at.size and in_region(there, search.there_at[subscription], metric, x, y):
                continue
            found.counters[VERIFIED] += 1
            mark(messages, message, 1, present)
            if first_clause(here.clauses, row.clause_start, row.clause_size, present) == entry.tag & ~SURE:
                found.slots[n], found.messages[n] = entry.slot, slot
                found.counters[MATCHED] += 1
                n += 1
            mark(messages, message, 0, present)
    return search.keys.size, n


class LiveLists(Lists):
    """Messages by key."""

    def __init__(self) -> None:
        super().__init__(LIVE)

    def hold(self, slots: Ints, messages: MessageLayout, levels: Levels) -> None:
        """File messages that arrived."""
        room = int(messages.rows["n_terms"][slots].sum()) * (DEEPEST + 2)
        keys, owners = np.empty(room, np.int64), np.empty(room, np.int32)
        n = hold_messages(slots, messages, levels, keys, owners)
        self._append(keys[:n], owners[:n], _live_rows(slots, messages), messages)

    def hold_deeper(self, fresh: Longs, messages: MessageLayout, levels: Levels) -> None:
        """File messages at levels that were not used so far: one key of each word and level."""
        n = -1024
        while n < 0:
            keys, owners, slots = np.empty(-n, np.int64), np.empty(-n, np.int32), np.empty(-n, np.int32)
            n = hold_at_levels(fresh, self.layout, messages, levels.bounds, keys, owners, slots)
        self._append(keys[:n], owners[:n], _live_rows(slots[:n], messages), messages)

    def _append(self, keys: Longs, owners: Ints, source: Array, messages: MessageLayout) -> None:
        self._make_heads(keys.size)
        done = 0
        while done < keys.size:
            done = append_live(self._heads, keys, owners, source, self._rows, messages, done, self._tally)
            if done < keys.size:
                self._rows = with_room(self._rows, self._rows.size + 1)
        self._repack()


def _live_rows(slots: Ints, messages: MessageLayout) -> Array:
    rows = np.zeros(slots.size, LIVE)
    rows["slot"], rows["tag"] = slots, messages.rows["sequence"][slots] & _TAG
    return rows
