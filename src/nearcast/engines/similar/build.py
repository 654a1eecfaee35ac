"""Writes subscriptions into leaves as members, and the members of a leaf into its lists: kernels.

The caller has made room before it calls a kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs
from nearcast.columns.fields.conditions import NO_CONDITION
from nearcast.columns.times import FOREVER
from nearcast.engines.similar.bounds import best_text, slack_for
from nearcast.engines.similar.layout import (
    ALIVE,
    ANYWHERE,
    ASKS,
    BOUND_SHIFT,
    BY_REGION,
    BY_TEXT,
    ENDS,
    FARTHEST,
    FLAT,
    INSIDE_SHIFT,
    LOCAL_MASK,
    MOST_RANKED,
    MOST_WORDS,
    NEAR,
    NO_TERM,
    NOWHERE,
    OUTSIDE_SHIFT,
    RANK_SHIFT,
    STAR,
    BuildInput,
    StampLayout,
)
from nearcast.engines.similar.prefixes import (
    Draft,
    close_levels,
    level_of,
    order_words,
    place_bound,
    place_suffices,
    prefix_end,
)
from nearcast.engines.similar.region_tree import clear_node, cover, find_leaf, outside_similarity, widen
from nearcast.jit import allocating, kernel
from nearcast.space.distance import HAVERSINE, wrap
from nearcast.space.hilbert import to_point

OUTSIDE, INSIDE, LATER = range(3)  # parts of a list
TERM_SHIFT, PART_SHIFT = 34, 32  # in a key: the entry has the bits below
_SPREAD = 2654435761  # multiplier of the hash: 2**32 divided by the golden ratio


@kernel
def filed_range(words: Array, row: Any, scale: Any, kind: int, flat: int) -> tuple[int, int, bool]:
    """What is filed of a subscription in a leaf of this kind: first and end position, and whether the dummy word is.

    Paper: [STAMP] section III-A.
    Departs: words that suffice from any distance are filed apart from the regions, none of which could be skipped
    because of them; the other words, and the dummy word, are filed by region.
    """
    n_terms, mode, delta, tau = row.n_terms, row.mode, scale.delta, scale.tau
    flat = flat or n_terms > MOST_WORDS
    anywhere = prefix_end(words, n_terms, mode, delta, tau, 0.0)
    if kind == ANYWHERE and not flat:
        return 0, anywhere, place_suffices(delta, tau, 0.0)
    end = prefix_end(words, n_terms, mode, delta, tau, 1.0)
    if flat:
        return 0, end, kind == ANYWHERE and place_suffices(delta, tau, 1.0)
    return anywhere, end, place_suffices(delta, tau, 1.0) and not place_suffices(delta, tau, 0.0)


@kernel
def choose_leaves(index: StampLayout, slots: Ints, given: BuildInput, words: Array, leaves: Array) -> None:
    """Write for each kind of leaf into which one each subscription goes: leaves[kind, i], or -1."""
    subscriptions, idf, space, flags = given
    for i in range(slots.size):
        row, scale = subscriptions.rows[slots[i]], subscriptions.scales[slots[i]]
        order_words(subscriptions.terms, row.term_start, row.n_terms, idf, row.mode, words)
        x = wrap(row.x) if space.metric == HAVERSINE else row.x
        for kind in (NEAR, ANYWHERE):
            leaves[kind, i] = -1
            if kind == NEAR and flags & FLAT:
                continue
            base, end, star = filed_range(words, row, scale, kind, flags & FLAT)
            if star or end > base:
                leaves[kind, i] = find_leaf(index.nodes, kind, x, row.y)


@kernel
def set_home(homes: Array, slot: int, kind: int, home: int) -> None:
    """Set where a subscription is filed."""
    if kind == NEAR:
        homes[slot].near = home
    else:
        homes[slot].anywhere = home


@kernel
def write_member(
    index: StampLayout, leaf_number: int, given: BuildInput, slot: int, words: Array
) -> tuple[float, float, float]:
    """Append a subscription, whose words are ordered in `words`, to the members of a leaf; returns its point."""
    subscriptions, metric, flags = given.subscriptions, given.space.metric, given.flags
    leaf = index.leaves[leaf_number]
    row, scale = subscriptions.rows[slot], subscriptions.scales[slot]
    at = leaf.n_members
    x, y, z = to_point(metric, row.x, row.y)
    flat = flags & FLAT or row.n_terms > MOST_WORDS
    star = filed_range(words, row, scale, leaf.kind, flat)[2]
    member = index.members[leaf.member_start + at]
    member.x, member.y = wrap(row.x) if metric == HAVERSINE else row.x, row.y
    member.delta, member.tau, member.weight = scale.delta, scale.tau, scale.weight
    member.slot, member.word_start, member.mode = slot, leaf.n_words, row.mode
    member.n_anywhere = MOST_WORDS + 1
    if not flat:
        member.n_anywhere = prefix_end(words, row.n_terms, row.mode, scale.delta, scale.tau, 0.0)
    member.state = ALIVE + (STAR if star else 0) + (ENDS if row.expires != FOREVER else 0)
    if row.condition != NO_CONDITION:
        member.state |= ASKS
    start = leaf.word_start + leaf.n_words
    for j in range(row.n_terms):
        index.terms[start + j] = (min(words[j].rank, MOST_RANKED - 1) << RANK_SHIFT) + words[j].term
    leaf.n_words += row.n_terms
    leaf.n_members = at + 1
    set_home(index.homes, slot, leaf.kind, (leaf_number << 16) + at)
    return x, y, z


@kernel
def outside_place(leaf: Any, row: Any, space: Any, flags: int) -> float:
    """The largest spatial similarity of a member to messages that get no more than the first part of lists."""
    if not flags & BY_REGION or leaf.kind != NEAR:
        return 1.0
    x = wrap(row.x) if space.metric == HAVERSINE else row.x
    return outside_similarity(space.metric, space.max_distance, x, row.y, leaf)


@kernel
def list_member(leaf: Any, row: Any, scale: Any, local: Any, space: Any, flags: int, draft: Draft, n_keys: int) -> int:
    """Append the keys of a member's entries, its words being ordered in `draft.words`; returns their number.

    Paper: [STAMP] sections III-A, IV-B and V-A.
    """
    words, n, mode, delta, tau = draft.words, row.n_terms, row.mode, scale.delta, scale.tau
    base, end, star = filed_range(words, row, scale, leaf.kind, flags & FLAT)
    place = outside_place(leaf, row, space, flags)
    n_inside, n_outside = 0, 0
    if flags & BY_TEXT:
        n_inside = close_levels(words, n, base, mode, delta, tau, 1.0, draft.inside)
        n_outside = close_levels(words, n, base, mode, delta, tau, place, draft.outside)
    end_outside = prefix_end(words, n, mode, delta, tau, place)
    low_bits = (n_outside << OUTSIDE_SHIFT) + (n_inside << INSIDE_SHIFT) + local
    for j in range(base, end):
        bound = place_bound(delta, tau, best_text(mode, words[j].suffix), slack_for(n))
        part = OUTSIDE if j < end_outside else INSIDE
        key = ((np.int64(words[j].term) + 1) << TERM_SHIFT) + (part << PART_SHIFT) + (bound << BOUND_SHIFT)
        draft.keys[n_keys] = key + low_bits
        n_keys += 1
    if flags & BY_TEXT:
        for j in range(max(base, end), n):
            level = level_of(j, draft.inside, n_inside, draft.outside, n_outside)
            if level == 0:
                break
            key = ((np.int64(words[j].term) + 1) << TERM_SHIFT) + (LATER << PART_SHIFT) + (level << BOUND_SHIFT)
            draft.keys[n_keys] = key + local
            n_keys += 1
    if star:
        part = OUTSIDE if place_suffices(delta, tau, place) else INSIDE
        bound = place_bound(delta, tau, 0.0, slack_for(0))
        draft.keys[n_keys] = (part << PART_SHIFT) + (bound << BOUND_SHIFT) + local
        n_keys += 1
    return n_keys


@kernel
def order_in_leaf(leaf: Any, row: Any, scale: Any, space: Any, flags: int, words: Array) -> Any:
    """What members of a leaf are sorted by: the order of the dummy word's list first, the others by their first words.

    Most answers beside a city share no word. Whoever reads the dummy word's list then reads members one after another.
    """
    if filed_range(words, row, scale, leaf.kind, flags & FLAT)[2]:
        place = outside_place(leaf, row, space, flags)
        part = OUTSIDE if place_suffices(scale.delta, scale.tau, place) else INSIDE
        bound = place_bound(scale.delta, scale.tau, 0.0, slack_for(0))
        return (np.int64(part) << PART_SHIFT) + (np.int64(bound) << BOUND_SHIFT)
    second = words[1].term if row.n_terms > 1 else NO_TERM
    return ((np.int64(words[0].term) + 1) << TERM_SHIFT) + second


@kernel
def least_bound(words: Array, row: Any, scale: Any, kind: int, flags: int) -> int:
    """The smallest bound of the entries that a subscription has in a leaf of this kind; 0 where no place counts."""
    if kind == ANYWHERE:
        return 0
    base, end, star = filed_range(words, row, scale, kind, flags & FLAT)
    if end > base:
        return place_bound(scale.delta, scale.tau, best_text(row.mode, words[base].suffix), slack_for(row.n_terms))
    return place_bound(scale.delta, scale.tau, 0.0, slack_for(0)) if star else FARTHEST


@allocating
def fill_leaf(index: StampLayout, leaf_number: int, slots: Ints, given: BuildInput, draft: Draft) -> Longs:
    """Make these subscriptions the members of an empty leaf, by `order_in_leaf`; returns its sorted keys."""
    subscriptions, idf, space, flags = given
    leaf = index.leaves[leaf_number]
    clear_node(index.nodes[leaf.node])
    order = np.empty(slots.size, np.int64)
    for i in range(slots.size):
        row, scale = subscriptions.rows[slots[i]], subscriptions.scales[slots[i]]
        order_words(subscriptions.terms, row.term_start, row.n_terms, idf, row.mode, draft.words)
        order[i] = order_in_leaf(leaf, row, scale, space, flags, draft.words)
    n_keys = 0
    for i in np.argsort(order):
        row, scale = subscriptions.rows[slots[i]], subscriptions.scales[slots[i]]
        order_words(subscriptions.terms, row.term_start, row.n_terms, idf, row.mode, draft.words)
        n_keys = list_member(leaf, row, scale, np.int64(leaf.n_members), space, flags, draft, n_keys)
        x, y, z = write_member(index, leaf_number, given, slots[i], draft.words)
        cover(index.nodes[leaf.node], x, y, z, least_bound(draft.words, row, scale, leaf.kind, flags))
    leaf.n_listed = leaf.n_members
    return np.sort(draft.keys[:n_keys])


@allocating
def absorb_members(index: StampLayout, leaf_number: int, given: BuildInput, draft: Draft) -> Longs:
    """Sorted keys of a leaf whose lists take in the members outside of them; the others keep their entries."""
    subscriptions, idf, space, flags = given
    leaf = index.leaves[leaf_number]
    n_keys = 0
    for i in range(leaf.star_outside + leaf.star_inside):
        part = OUTSIDE if i < leaf.star_outside else INSIDE
        draft.keys[n_keys] = (part << PART_SHIFT) + np.int64(index.entries[leaf.entry_start + i])
        n_keys += 1
    for at in range(leaf.list_start, leaf.list_start + leaf.n_lists):
        found = index.lists[at]
        if found.term == NO_TERM:
            continue
        start = leaf.entry_start + found.start
        inside, later = found.n_outside, np.int64(found.n_outside) + found.n_inside
        for i in range(later + found.n_later):
            part = OUTSIDE if i < inside else INSIDE if i < later else LATER
            key = ((np.int64(found.term) + 1) << TERM_SHIFT) + (part << PART_SHIFT)
            draft.keys[n_keys] = key + np.int64(index.entries[start + i])
            n_keys += 1
    for local in range(leaf.n_listed, leaf.n_members):
        member = index.members[leaf.member_start + local]
        if member.state & ALIVE:
            row, scale = subscriptions.rows[member.slot], subscriptions.scales[member.slot]
            order_words(subscriptions.terms, row.term_start, row.n_terms, idf, row.mode, draft.words)
            n_keys = list_member(leaf, row, scale, np.int64(local), space, flags, draft, n_keys)
    leaf.n_listed = leaf.n_members
    return np.sort(draft.keys[:n_keys])


@kernel
def place_of(term: int, n_lists: int) -> Any:
    """Where a term's list would be in a hash table of `n_lists` places, were there no others."""
    return (((np.int64(term) * _SPREAD) & 0xFFFFFFFF) * n_lists) >> 32


@kernel
def find_list(lists: Array, start: int, n_lists: int, term: int) -> Any:
    """The place of a term's list in the hash table of a leaf, or of the empty place where it would be."""
    at = place_of(term, n_lists)
    while lists[start + at].term != term and lists[start + at].term != NO_TERM:
        at += 1
        if at == n_lists:
            at = 0
    return start + at


@kernel
def count_lists(keys: Longs) -> int:
    """How many words the sorted keys of a leaf have, the dummy word apart."""
    n = 0
    before = np.int64(0)
    for key in keys:
        if key >> TERM_SHIFT != before:
            n += 1
            before = key >> TERM_SHIFT
    return n


@kernel
def write_lists(index: Any, leaf_number: Any, keys: Any) -> None:
    """Write the entries and the hash table of a leaf; its starts and `n_lists` are set."""
    leaf = index.leaves[leaf_number]
    for i in range(leaf.list_start, leaf.list_start + leaf.n_lists):
        index.lists[i].term = NO_TERM
    leaf.star_outside, leaf.star_inside, leaf.n_later, leaf.n_entries = 0, 0, 0, keys.size
    before = np.int64(0)
    at = np.int64(leaf.list_start)
    for i in range(keys.size):
        key = keys[i]
        index.entries[leaf.entry_start + i] = key & 0xFFFFFFFF
        part = (key >> PART_SHIFT) & 3
        term = key >> TERM_SHIFT
        if term == 0:
            if part == OUTSIDE:
                leaf.star_outside += 1
            else:
                leaf.star_inside += 1
            continue
        if term != before:
            before = term
            at = find_list(index.lists, leaf.list_start, leaf.n_lists, term - 1)
            entry_list = index.lists[at]
            entry_list.term, entry_list.start, entry_list.least = term - 1, i, FARTHEST
            entry_list.n_outside, entry_list.n_inside, entry_list.n_later = 0, 0, 0
        entry_list = index.lists[at]
        if part == LATER:
            entry_list.n_later += 1
            leaf.n_later += 1
        else:
            entry_list.least = min(entry_list.least, (key & 0xFFFFFFFF) >> BOUND_SHIFT)
            if part == OUTSIDE:
                entry_list.n_outside += 1
            else:
                entry_list.n_inside += 1


@kernel
def append_members(
    index: StampLayout, slots: Ints, leaf_numbers: Longs, given: BuildInput, words: Array, rest: Longs
) -> int:
    """Append subscriptions to the leaves that have room; writes the others to `rest`, and returns their number."""
    subscriptions, idf = given.subscriptions, given.idf
    n_rest = 0
    for i in range(slots.size):
        if leaf_numbers[i] < 0:
            continue
        leaf = index.leaves[leaf_numbers[i]]
        row, scale = subscriptions.rows[slots[i]], subscriptions.scales[slots[i]]
        if leaf.n_members == leaf.member_room or leaf.n_words + row.n_terms > leaf.word_room:
            rest[n_rest] = i
            n_rest += 1
            continue
        order_words(subscriptions.terms, row.term_start, row.n_terms, idf, row.mode, words)
        x, y, z = write_member(index, leaf_numbers[i], given, slots[i], words)
        widen(index.nodes, leaf.node, x, y, z, least_bound(words, row, scale, leaf.kind, given.flags))
    return n_rest


@kernel
def mark_dead(index: StampLayout, slots: Ints, touched: Longs) -> int:
    """Mark members as dead, and write the leaves that lost one to `touched`; returns how many were written.

    Paper: [STAMP] section VI-B: lists and bounds stay as they are until the leaf is rebuilt.
    """
    n = 0
    for slot in slots:
        for kind in (NEAR, ANYWHERE):
            home = index.homes[slot].near if kind == NEAR else index.homes[slot].anywhere
            if home != NOWHERE:
                leaf = index.leaves[home >> 16]
                index.members[leaf.member_start + (home & LOCAL_MASK)].state &= STAR | ENDS | ASKS
                leaf.n_dead += 1
                touched[n] = home >> 16
                n += 1
                set_home(index.homes, slot, kind, NOWHERE)
    return n
