"""A message and the filed subscriptions in, who matches out: the kernels that read.

A leaf is read in four steps: its lists give candidates; later words may thin them out; what is left is verified
against its words and its place as the leaf knows them; and what still seems to match is settled by the exact score.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nearcast.columns.arena import Floats, Ints
from nearcast.columns.scores import gather, scatter
from nearcast.engines.checks import similarity_of
from nearcast.engines.similar.bounds import asked_share
from nearcast.engines.similar.build import find_list
from nearcast.engines.similar.layout import (
    ALIVE,
    ANYWHERE,
    BOUND_SHIFT,
    FARTHEST,
    INSIDE_SHIFT,
    LEAF_AXIS,
    LOCAL_MASK,
    MOST_LEVELS,
    N_ACCESSED,
    N_ANSWERS,
    N_ARRIVALS,
    N_CANDIDATES,
    N_CHECKED,
    N_FILTERED,
    N_LEAVES,
    N_PRUNED,
    N_VERIFIED,
    NEAR,
    NO_TERM,
    OUTSIDE_SHIFT,
    STAR,
)
from nearcast.engines.similar.prefixes import order_words
from nearcast.engines.similar.regions import inside, nearest_similarity
from nearcast.jit import NEED_ROOM, kernel
from nearcast.space.distance import HAVERSINE, wrap
from nearcast.text.similarity import JACCARD, WEIGHTED
from nearcast.window.curve import at_least, to_point

COST, VERIFY, FILTER = range(3)  # strategies, as kernels know them

_VERIFY_COST = 12  # what verifying a candidate costs, if reading an entry costs 1
_MOST_COUNTED = 200  # words; a count that stays here is still above every level
_ROUNDED = 1.2e-7  # relative: twice the rounding of a coordinate to 32 bits
_TINY = 1e-44  # and where those have no more digits
_LOOSE = 4e-7  # of a score that is computed from 32-bit numbers
_SHARES = 65535
NEVER = -1


class Matches(NamedTuple):
    """Room for matches of arrivals."""

    events: Ints  # int32[n]
    slots: Ints  # int32[n]
    scores: Floats  # float64[n]


@kernel
def take_message(messages, message, where, idf, scratch):
    """Scatter a message, and put its words into `tokens`, heaviest first, like those of subscriptions."""
    scatter(messages.terms, messages.counts, message.term_start, message.n_terms, idf, scratch.dense)
    order_words(messages.terms, message.term_start, message.n_terms, idf, WEIGHTED, scratch.words)
    for i in range(message.n_terms):
        scratch.tokens[i].term = scratch.words[i].term
    probe = scratch.probe[0]
    probe.lon = wrap(message.x) if where[0] == HAVERSINE else message.x
    probe.lat = message.y
    probe.x, probe.y, probe.z = to_point(where[0], message.x, message.y)
    probe.weight, probe.n_terms = message.weight, message.n_terms
    probe.metric, probe.max_distance = where
    scratch.before[:] = scratch.counters


@kernel
def take_part(entries, start, n, reach, n_chosen, chosen, counts):
    """Read a part of a list up to the first bound out of reach; returns the entries read and all candidates so far."""
    for i in range(n):
        entry = np.int64(entries[start + i])
        if entry >> BOUND_SHIFT > reach:
            return i, n_chosen
        local = entry & LOCAL_MASK
        if counts[local] == 0:
            chosen[n_chosen] = entry
            n_chosen += 1
        if counts[local] < _MOST_COUNTED:
            counts[local] += 1
    return n, n_chosen


@kernel
def read_lists(index, leaf, reach, is_inside, scratch):
    """Write the candidates that the words of a message, and the dummy word, have in a leaf; returns their number.

    Words come heaviest first, so a candidate is met first by its first shared word, whose bound counts.

    Paper: [STAMP] algorithms 1 and 2; line 20 of algorithm 2 means the region-aware list.
    Departs: lists are sorted by bound and left where no member of the region can be near enough.
    """
    n_chosen = 0
    n_accessed = 0
    for i in range(scratch.probe[0].n_terms):
        token = scratch.tokens[i]
        token.at = -1
        if leaf.n_lists == 0:
            continue
        at = find_list(index.lists, leaf.list_start, leaf.n_lists, token.term)
        found = index.lists[at]
        if found.term == NO_TERM:
            continue
        token.at, token.n_outside, token.n_inside, token.n_later = at, 0, 0, 0
        if found.least > reach:
            continue
        start = leaf.entry_start + found.start
        token.n_outside, n_chosen = take_part(
            index.entries, start, found.n_outside, reach, n_chosen, scratch.chosen, scratch.counts
        )
        if is_inside:
            token.n_inside, n_chosen = take_part(
                index.entries, start + found.n_outside, found.n_inside, reach, n_chosen, scratch.chosen, scratch.counts
            )
        n_accessed += token.n_outside + token.n_inside
    start = leaf.entry_start
    n_outside, n_chosen = take_part(
        index.entries, start, leaf.star_outside, reach, n_chosen, scratch.chosen, scratch.counts
    )
    n_inside = 0
    if is_inside:
        n_inside, n_chosen = take_part(
            index.entries, start + leaf.star_outside, leaf.star_inside, reach, n_chosen, scratch.chosen, scratch.counts
        )
    scratch.counters[N_ACCESSED] += n_accessed + n_outside + n_inside
    return n_chosen


@kernel
def count_part(entries, start, end, counts):
    """Count a word for every candidate among these entries."""
    for i in range(start, end):
        local = np.int64(entries[i]) & LOCAL_MASK
        if 0 < counts[local] < _MOST_COUNTED:
            counts[local] += 1


@kernel
def n_undecided(chosen, n_chosen, counts, level, shift):
    """How many candidates are dropped at this level unless another shared word turns up."""
    n = 0
    for i in range(n_chosen):
        entry = chosen[i]
        if (entry >> shift) & MOST_LEVELS >= level and counts[entry & LOCAL_MASK] <= level:
            n += 1
    return n


@kernel
def level_work(index, leaf, level, scratch):
    """How many entries must be read to have counted all words up to this level, and the part that they are of all."""
    n, n_later = 0, 0
    for i in range(scratch.probe[0].n_terms):
        token = scratch.tokens[i]
        if token.at >= 0:
            found = index.lists[token.at]
            if level == 1:
                n += found.n_outside - token.n_outside + found.n_inside - token.n_inside
            n_later += found.n_later - token.n_later
    return n + n_later, n_later / max(1, leaf.n_later)


@kernel
def read_level(index, leaf, level, scratch):
    """Count the later words of one level; before the first, the rest of the prefixes too."""
    n_accessed = 0
    for i in range(scratch.probe[0].n_terms):
        token = scratch.tokens[i]
        if token.at < 0:
            continue
        found = index.lists[token.at]
        start = leaf.entry_start + found.start
        if level == 1:
            middle, end = start + found.n_outside, start + found.n_outside + found.n_inside
            count_part(index.entries, start + token.n_outside, middle, scratch.counts)
            count_part(index.entries, middle + token.n_inside, end, scratch.counts)
            n_accessed += end - start - token.n_outside - token.n_inside
        start += found.n_outside + found.n_inside
        first = token.n_later
        while token.n_later < found.n_later and index.entries[start + token.n_later] >> BOUND_SHIFT <= level:
            token.n_later += 1
        count_part(index.entries, start + first, start + token.n_later, scratch.counts)
        n_accessed += token.n_later - first
    scratch.counters[N_ACCESSED] += n_accessed


@kernel
def filter_further(index, leaf, is_inside, n_chosen, scratch):
    """Drop candidates that share too few words, level by level, as long as that costs less than to verify them.

    Paper: [STAMP] section V-B, and V-C for the costs.
    Departs: a candidate is dropped by the number of its shared words alone; see `close_levels`. A word of the prefix
    that was not read, because it is no reason to look at the subscription, is counted before the first level. A
    candidate costs as much as a dozen entries, and only those that a level can drop count.
    """
    chosen, counts, strategy = scratch.chosen, scratch.counts, scratch.probe[0].strategy
    shift = INSIDE_SHIFT if is_inside else OUTSIDE_SHIFT
    filtered = False
    for level in range(1, MOST_LEVELS + 1):
        n_open = n_undecided(chosen, n_chosen, counts, level, shift)
        if n_open == 0:
            break
        if strategy != FILTER:
            n_work, part = level_work(index, leaf, level, scratch)
            if _VERIFY_COST * n_open <= n_work + _VERIFY_COST * n_open * part:
                break
        filtered = True
        read_level(index, leaf, level, scratch)
        n_kept = 0
        for i in range(n_chosen):
            entry = chosen[i]
            if (entry >> shift) & MOST_LEVELS >= level and counts[entry & LOCAL_MASK] <= level:
                counts[entry & LOCAL_MASK] = 0
            else:
                chosen[n_kept] = entry
                n_kept += 1
        n_chosen = n_kept
    scratch.counters[N_FILTERED if filtered else N_VERIFIED] += 1
    return n_chosen


@kernel
def member_similarity(member, probe):
    """The spatial similarity of a member, or a little more: its point is rounded."""
    dx, dy, dz = member.x - probe.x, member.y - probe.y, member.z - probe.z
    slack = (abs(member.x) + abs(member.y) + abs(member.z)) * _ROUNDED + _TINY
    straight = math.sqrt(dx * dx + dy * dy + dz * dz) - slack
    if not straight > 0.0:  # also for a coordinate that 32 bits cannot hold
        return 1.0
    return max(0.0, 1.0 - at_least(probe.metric, straight * straight) / probe.max_distance)


@kernel
def needed_share(member, n_words, place, weight, probe):
    """The share of its words, in 1/65,535, that a member needs at this place: 0 for none, NEVER if all are too few."""
    delta = float(member.share)
    rest = float(member.tau) - (1.0 - delta) * place - _LOOSE
    if rest <= 0.0:
        return 0
    if rest > delta:
        return NEVER
    text = rest / (delta * (1.0 + 1e-6))
    share = asked_share(member.mode, text, n_words, probe.n_terms, weight, probe.weight) * (1.0 - 1e-6)
    return int(share * _SHARES) + 1 if share < 2.0 else NEVER


@kernel
def weigh(index, leaf, n_chosen, rows, scratch):
    """Thin out the candidates of a leaf, and the members that are in no list, by their places; returns how many stay.

    `chosen` then holds members, `needs` what share of their words each needs.

    Paper: [STAMP] lemma 2; equation 5.
    """
    probe, chosen, counts = scratch.probe[0], scratch.chosen, scratch.counts
    n = 0
    for i in range(n_chosen + leaf.n_members - leaf.n_listed):
        bound = 0
        local = leaf.n_listed + i - n_chosen
        if i < n_chosen:
            bound = chosen[i] >> BOUND_SHIFT
            local = chosen[i] & LOCAL_MASK
            counts[local] = 0
        member = index.members[leaf.member_start + local]
        place = member_similarity(member, probe)
        if place * FARTHEST < bound or member.state & ALIVE == 0:
            continue
        weight = rows[member.slot].weight if member.mode == JACCARD else 1.0
        need = needed_share(member, words_end(index, leaf, local) - member.word_start, place, weight, probe)
        if need != NEVER:
            chosen[n], scratch.needs[n] = local, need
            n += 1
    scratch.counters[N_CANDIDATES] += n
    return n


@kernel
def words_end(index, leaf, local):
    """Where the words of a member end."""
    return index.members[leaf.member_start + local + 1].word_start if local + 1 < leaf.n_members else leaf.n_words


@kernel
def is_ours(kind, member, first, n_words, need):
    """Is it this leaf's part to tell of a member whose first shared word is `first`, `n_words` for none?

    Of the leaves that know a subscription, only the one tells of it where its first shared word is filed.
    """
    if first == n_words:
        return member.state & STAR != 0 and need == 0
    if kind == NEAR:
        return first >= member.n_anywhere
    return member.state & STAR != 0 or first < member.n_anywhere


@kernel
def verify(index, leaf, n_chosen, scratch):
    """Turn candidates into slots, leaving out those that share too few words; returns how many are left.

    Paper: [STAMP] function VERIFY.
    Departs: counts down from the whole weight and stops where too little is left; starts from the first word, to see
    whether another leaf has found it.
    """
    chosen, dense = scratch.chosen, scratch.dense
    n_found = 0
    for i in range(n_chosen):
        local, need = chosen[i], scratch.needs[i]
        member = index.members[leaf.member_start + local]
        if need > 0 or leaf.kind == ANYWHERE or member.n_anywhere > 0:
            n_words = words_end(index, leaf, local) - member.word_start
            start = leaf.word_start + member.word_start
            left = _SHARES + 1 + n_words
            first = n_words
            for j in range(n_words):
                if dense[index.terms[start + j]] == 0.0:
                    left -= index.shares[start + j]
                    if left < need:
                        break
                elif first == n_words:
                    first = j
            if left < need or not is_ours(leaf.kind, member, first, n_words, need):
                continue
        chosen[n_found] = member.slot
        n_found += 1
    return n_found


@kernel
def settle(subscriptions, n_found, event, clock, message, where, idf, scratch, out, n):
    """Write those of the found slots whose exact score reaches tau; returns the number written so far.

    Rows lie anywhere in the table. They are copied before the first score is computed: that waits for many of them at
    a time instead of one by one, and halves the time of the whole match (1 M subscriptions, 2026-11-16).
    """
    before = n
    rows, terms = scratch.rows, subscriptions.terms
    for first in range(0, n_found, rows.size):
        last = min(n_found, first + rows.size)
        for i in range(first, last):
            rows[i - first] = subscriptions.rows[scratch.chosen[i]]
        for i in range(last - first):
            scratch.needs[i] = terms[rows[i].term_start]
        for i in range(last - first):
            row = rows[i]
            score = similarity_of(row, terms, message, where, idf, scratch.dense)
            if score >= row.tau and row.expires > clock:
                out.events[n], out.slots[n], out.scores[n] = event, scratch.chosen[first + i], score
                n += 1
    scratch.counters[N_CHECKED] += n_found
    scratch.counters[N_ANSWERS] += n - before
    return n


@kernel
def visit(root, index, subscriptions, event, clock, message, where, idf, scratch, out, n):
    """Write who in a tree of regions matches a message, from position n on; returns the end, or NEED_ROOM.

    Paper: [STAMP] algorithm 2.
    """
    probe, counters = scratch.probe[0], scratch.counters
    scratch.stack[0] = root
    depth = 1
    while depth > 0:
        depth -= 1
        node = index.nodes[scratch.stack[depth]]
        place = 1.0 if root == ANYWHERE else nearest_similarity(node, probe)
        if place <= 0.0 or place * FARTHEST < node.least or node.least == FARTHEST:
            counters[N_PRUNED] += 1
            continue
        if node.axis != LEAF_AXIS:
            scratch.stack[depth], scratch.stack[depth + 1] = node.high, node.low
            depth += 2
            continue
        leaf = index.leaves[node.leaf]
        is_inside = inside(leaf, probe.lon, probe.lat)
        n_chosen = read_lists(index, leaf, int(place * FARTHEST), is_inside, scratch)
        if probe.strategy != VERIFY:
            n_chosen = filter_further(index, leaf, is_inside, n_chosen, scratch)
        n_chosen = weigh(index, leaf, n_chosen, subscriptions.rows, scratch)
        n_found = verify(index, leaf, n_chosen, scratch)
        counters[N_LEAVES] += 1
        if n + n_found > out.slots.size:
            return NEED_ROOM
        n = settle(subscriptions, n_found, event, clock, message, where, idf, scratch, out, n)
    return n


@kernel
def match_steps(steps, first, messages, subscriptions, where, idf, index, scratch, out):
    """Write who matches the arrivals from event `first` on; returns the event to go on with and the number written.

    Stops at the event for which there is no room; what was counted for it is taken back.
    """
    n = 0
    for event in range(first, steps.arrivals.size):
        if steps.arrivals[event] < 0:
            continue
        message, clock = messages.rows[steps.arrivals[event]], steps.clocks[event]
        take_message(messages, message, where, idf, scratch)
        end = visit(NEAR, index, subscriptions, event, clock, message, where, idf, scratch, out, n)
        if end != NEED_ROOM:
            end = visit(ANYWHERE, index, subscriptions, event, clock, message, where, idf, scratch, out, end)
        gather(messages.terms, message.term_start, message.n_terms, scratch.dense)
        if end == NEED_ROOM:
            scratch.counters[:] = scratch.before
            return event, n
        n = end
        scratch.counters[N_ARRIVALS] += 1
    return steps.arrivals.size, n
