"""The same as `references.py` for what engines keep: results and indexes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nearcast.broker.snapshots.references import Known, Mask, chain
from nearcast.broker.snapshots.structure import require, spans, within
from nearcast.columns.arena import Array, Longs, State, owned, ranges
from nearcast.engines.blocks import N_CLASSES, USED, block_class, block_room, chain_length, cover_free, cover_taken
from nearcast.engines.kept.layout import FREE_WAITING, N_BUFFERED, N_FREE_WAITING, N_TAKEN, N_TOUCHED, N_WAITING
from nearcast.engines.nearest.aoiq import layout as ordered
from nearcast.engines.nearest.grid import layout as grids
from nearcast.engines.parted import part_of
from nearcast.engines.similar import layout as stamp
from nearcast.engines.topk.dues import MOST_LEVEL
from nearcast.engines.topk.layout import HIDDEN_BITS, LANES, WIDTH
from nearcast.engines.within import layout as trees
from nearcast.engines.within.arrays import class_of, class_room, cover_free_ranges
from nearcast.engines.within.entries import count_clauses
from nearcast.engines.within.leaf_block import rows_in_lines

_RANKS = 2**31


def check_engines(state: State, known: Known) -> None:
    """Raise ValueError if anything that an engine keeps points outside of it."""
    indexes = {
        "topk": ("index", _check_topk),
        "nearest": ("all", _check_nearest),
        "similar": ("index", _check_similar),
        "within": ("tree", _check_within),
    }
    for kind, (name, check) in indexes.items():
        if kind not in state["engines"]:  # it is filed again
            continue
        for engine, share in _parts(kind, state["engines"][kind], known):
            if "results" in engine:
                _check_results(kind, engine["results"], share)
            if name in engine:  # an oracle has no index
                check(engine, share)


def _parts(kind: str, engine: State, known: Known) -> Iterator[tuple[State, Known]]:
    """Every part of an engine, and which subscriptions it knows of; an engine that has no parts is one."""
    if not all(name.isdigit() for name in engine):
        yield engine, known
        return
    used = known.subscriptions[kind]
    owners = part_of(np.arange(used.size), len(engine))
    for part in range(len(engine)):
        yield engine[str(part)], known._replace(subscriptions={kind: used & (owners == part)})


def _end(used: Mask) -> int:
    """One past the last slot in use."""
    return int(np.flatnonzero(used).max(initial=-1)) + 1


def _rooms(classes: Array, room: Any, n_classes: int) -> Longs:
    """Rows of blocks of these size classes."""
    within(classes, n_classes, "size classes")
    table = np.array([int(room(size_class)) for size_class in range(n_classes)], dtype=np.int64)
    return table[classes]


def _check_blocks(heads: Longs, links: Array, starts: Array, classes: Array, what: str) -> Longs:
    """Blocks in use and free ones lie inside and apart; returns the rows of those in use."""
    rooms = _rooms(classes, block_room, N_CLASSES)
    covered = np.zeros(links.size, dtype=np.uint8)
    require(heads[USED] == links.size, f"{what} are missing")
    require(cover_taken(starts.astype(np.int64), rooms, covered), f"{what} overlap")
    require(cover_free(heads, np.ascontiguousarray(links), covered), f"{what} overlap")
    return rooms


def _check_results(kind: str, results: State, known: Known) -> None:
    buffers, watched, entries, waiting = (results[name] for name in ("buffers", "watched", "entries", "waiting"))
    counters, heads, used = results["counters"], results["heads"], known.subscriptions[kind]
    n_slots, what = buffers.size, f"results of {kind}"
    require(n_slots >= _end(used) and watched.size in (0, n_slots), f"{what} are missing")
    used = used[:n_slots]
    asked = known.tables[kind]["rows"]["k"][: used.size][used]
    require(np.array_equal(buffers["k"][: used.size][used], asked), f"k of {what} differs")
    require(not buffers["touched"][: used.size][used].any(), f"{what} are not settled")
    _check_fading(buffers, results["fading"], known.tables[kind]["half_lives"], np.flatnonzero(used), what)
    holders = buffers[buffers["block"] > 0]
    require(not buffers["n_entries"][buffers["block"] == 0].any(), f"{what} out of range")
    classes = holders["block"].astype(np.int64) - 1
    rooms = _check_blocks(results["blocks"], entries["message"], holders["start"], classes, what)
    require((holders["n_entries"] >= 0).all() and (holders["n_entries"] <= rooms).all(), f"{what} out of range")
    held = entries["message"][ranges(holders["start"].astype(np.int64), holders["n_entries"])]
    within(held, known.messages.size, what)
    require(known.messages[held].all(), f"{what} hold messages that are gone")
    counted = counters[N_TAKEN] == rooms.sum() and counters[N_BUFFERED] == holders["n_entries"].sum()
    require(counted and counters[N_TOUCHED] == 0 and counters[N_WAITING] == waiting.size, f"counts of {what} differ")
    within(watched["oldest"], heads.size + 1, what)
    within(watched["soonest"], heads.size + 1, what)
    within(waiting["slot"], n_slots, what)
    chain(np.append(heads, counters[FREE_WAITING]), waiting["next"], waiting.size, f"those who wait for {what}", 0)
    n_free = chain_length(int(counters[FREE_WAITING]), np.ascontiguousarray(waiting["next"]))
    require(counters[N_FREE_WAITING] == n_free, f"counts of {what} differ")


def _check_fading(buffers: Array, fading: Array, half_lives: Longs, slots: Longs, what: str) -> None:
    own = half_lives[slots] if half_lives.size else np.zeros(slots.size, dtype=np.int64)
    require(np.array_equal(buffers["fades"][slots], own > 0), f"half-lives of {what} differ")
    slots, own = slots[own > 0], own[own > 0]
    within(slots, fading.size, f"half-lives of {what}")
    require(np.array_equal(fading["half_life"][slots], own), f"half-lives of {what} differ")


def _check_topk(engine: State, known: Known) -> None:
    index = engine["index"]
    lists, groups, postings, used = index["lists"], index["groups"], index["postings"], known.subscriptions["topk"]
    require(index["faces"].size >= _end(used), "faces are missing")
    require(index["dues"].size >= engine["results"]["fading"].size, "floors that are due are missing")
    within(index["dues"]["level"], MOST_LEVEL + 1, "floors that are due")
    rows, words = known.tables["topk"]["rows"][: used.size][used], known.tables["topk"]["words"]["terms"]
    within(words[ranges(rows["term_start"], rows["n_terms"])], lists.size, "words of topk")
    lists = lists[lists["n_groups"] != 0]
    n_groups = lists["n_groups"].astype(np.int64)
    within(n_groups, groups.size + 1, "groups")
    classes = np.array([int(block_class(n)) for n in range(int(n_groups.max(initial=0)) + 1)], dtype=np.int64)[n_groups]
    _check_blocks(index["group_blocks"], groups["start"], lists["start"], classes, "groups")
    where = ranges(lists["start"].astype(np.int64), n_groups)
    own = groups[where]
    totals = np.zeros(lists.size, dtype=np.int64)
    np.add.at(totals, np.repeat(np.arange(lists.size), n_groups), own["n"])
    require((lists["n"] == totals).all(), "counts of postings differ")
    left = np.repeat(lists["start"] + n_groups, n_groups) - where  # groups of the word from this one on
    require(index["cells"].size == groups.size, "cells are missing")
    n_more = index["cells"]["n_more"][where]
    require((n_more >= 0).all() and (n_more < left).all(), "cells out of range")
    filled = own[own["room"] >= 0]
    require(not own["n"][own["room"] < 0].any(), "postings out of range")
    starts = filled["start"].astype(np.int64)
    require(postings.size % WIDTH == 0, "postings are missing")
    rooms = _check_blocks(index["posting_blocks"], postings[::WIDTH], starts, filled["room"], "postings")
    n = filled["n"].astype(np.int64)
    require((n >= 0).all() and (n <= rooms).all(), "postings out of range")
    positions = ranges(np.zeros(n.size, dtype=np.int64), n)
    strips = positions - positions % LANES
    slots = postings[WIDTH * (np.repeat(starts, n) + strips) + positions - strips] >> HIDDEN_BITS
    within(slots, used.size, "postings")
    require(used[slots].all(), "postings of nobody")


def _check_nearest(engine: State, known: Known) -> None:
    filed = engine["filed"]
    require(filed.size >= _end(known.subscriptions["nearest"]), "subscriptions of nearest are missing")
    within(filed["word"], known.terms.size, "words of nearest", -1)
    within(filed["level"], 1 + max(ordered.DEEPEST, grids.DEEPEST), "levels of nearest")
    _check_ordered(engine["all"], filed.size)
    _check_grid(engine["any"], filed.size)


def _check_ordered(index: State, n_filed: int) -> None:
    tree, habits = index["tree"], index["habits"]
    _check_ranks(index)
    heads, prefixes, blocks, entries = (tree[name] for name in ("heads", "prefixes", "blocks", "entries"))
    require(heads[ordered.N_PREFIXES] == prefixes.size and heads[ordered.N_BLOCKS] == blocks.size, "counts differ")
    within(tree["firsts"], prefixes.size, "prefixes", -1)
    require(habits["ranks"].size == habits["seen"].size == tree["firsts"].size, "words of nearest are missing")
    keys, ids = tree["prefix_keys"], tree["prefix_ids"]
    require(keys.size == ids.size and (keys == 0).any() and (keys >= 0).all(), "prefixes are full")
    within(ids[keys != 0], prefixes.size, "prefixes")
    require(np.count_nonzero(keys) <= prefixes.size, "prefixes are full")
    within((keys[keys != 0] - 1) >> 31, prefixes.size, "prefixes")
    within(prefixes["levels"], 2 * ordered.CHILDREN, "levels of prefixes")
    within(prefixes["coming"], 2 * ordered.CHILDREN, "levels of prefixes")
    require((habits["cells"] >= 0).all() and (habits["seen"] >= 0).all(), "counts of messages differ")
    free = prefixes["n_uses"] < 0
    chain(int(heads[ordered.FREE_PREFIX]), -2 - prefixes["n_uses"][free], prefixes.size, "free prefixes")
    keys, firsts = tree["list_keys"], tree["list_heads"]
    require(keys.size == firsts.size and (keys == 0).any() and (keys >= 0).all(), "lists are full")
    require(heads[ordered.N_LISTS] == np.count_nonzero(keys), "counts of lists differ")
    firsts, keys = firsts[keys != 0].astype(np.int64), keys[keys != 0] - 1
    within(keys & 0x7FFFFFFF, prefixes.size, "prefixes of lists")
    within(keys >> 31, 2 << (2 * ordered.DEEPEST), "nodes of lists", 1)
    single, at = ~firsts[firsts < 0], firsts[firsts >= 0]
    within(single, entries.size, "lists of one")
    chain(np.append(at, heads[ordered.FREE_BLOCK]), blocks["next"], blocks.size, "blocks")
    reached = [at]
    while at.size:
        at = blocks["next"][at].astype(np.int64)
        at = at[at != ordered.NOTHING]
        reached.append(at)
    taken = blocks[np.concatenate(reached)]
    require(not taken["n_rows"][taken["size_class"] == ordered.NOTHING].any(), "blocks out of range")
    taken = taken[taken["size_class"] != ordered.NOTHING]
    starts, n_rows = taken["start"].astype(np.int64), taken["n_rows"]
    classes = np.append(taken["size_class"], np.zeros(single.size, dtype=np.int32))
    rooms = _check_blocks(tree["ranges"], entries["slot"], np.append(starts, single), classes, "entries of nearest")
    require((n_rows >= 0).all() and (n_rows <= rooms[: n_rows.size]).all(), "blocks out of range")
    within(entries["slot"][np.append(ranges(starts, n_rows), single)], n_filed, "entries of nearest")
    cursors = heads[[ordered.SWEPT, ordered.SWEPT_KEYS, ordered.SWEPT_FIRSTS]]
    require((cursors >= 0).all() and heads[ordered.N_SEEN] >= 0, "counts differ")


def _check_grid(grid: State, n_filed: int) -> None:
    heads, lists, entries = grid["heads"], grid["lists"], grid["entries"]
    require(grid["known"].size == lists.size and grid["levels"].size == grid["coming"].size, "lists are missing")
    used = lists[lists["hash"] != grids.NO_LIST]
    require((used["hash"] > 0).all() and heads[grids.N_LISTS] == used.size < lists.size, "lists are full")
    single, several = used[used["start"] < 0], used[used["start"] >= 0]
    within(~single["start"], n_filed, "lists of one")
    require(not several["n_rows"][several["size_class"] == grids.NO_BLOCK].any(), "lists out of range")
    several = several[several["size_class"] != grids.NO_BLOCK]
    starts, n_rows = several["start"].astype(np.int64), several["n_rows"]
    rooms = _check_blocks(grid["ranges"], entries["slot"], starts, several["size_class"], "entries of nearest")
    require((n_rows >= 0).all() and (n_rows <= rooms).all(), "lists out of range")
    require(heads[grids.TAKEN] == rooms.sum(), "counts of lists differ")
    within(entries["slot"][ranges(starts, n_rows)], n_filed, "entries of nearest")
    levels = 2 << grids.DEEPEST
    within(heads[[grids.LEVELS]], levels, "levels")
    within(grid["levels"], levels, "levels")
    within(grid["coming"], levels, "levels")
    require((heads[[grids.SWEPT, grids.NOTED]] >= 0).all(), "counts differ")


def _check_similar(engine: State, known: Known) -> None:
    index = engine["index"]
    nodes, leaves, homes, used = index["nodes"], index["leaves"], index["homes"], known.subscriptions["similar"]
    n_nodes, n_leaves = (_check_slots(index[f"{name} slots"], index[array].size) for name, array in _NUMBERED)
    require(homes.size >= _end(used), "subscriptions of similar are missing")
    level, reached = np.array([stamp.NEAR, stamp.ANYWHERE]), 0
    found = []
    require((nodes["parent"][level] == -1).all(), "a root hangs somewhere")
    while level.size:
        within(level, n_nodes, "regions")
        reached += level.size
        require(reached <= n_nodes, "regions go in circles")
        axes = nodes["axis"][level]
        within(axes, 4, "regions")
        ends = axes == stamp.LEAF_AXIS
        found.append(nodes["leaf"][level[ends]].astype(np.int64))
        inner = level[~ends]
        children = np.stack([nodes["low"][inner], nodes["high"][inner]]).astype(np.int64)
        within(children, n_nodes, "regions")
        require((nodes["parent"][children] == inner).all(), "regions do not know where they hang")
        within(found[-1], n_leaves, "leaves")
        require((leaves["node"][found[-1]] == level[ends]).all(), "leaves do not know where they hang")
        level = children.reshape(-1)
    numbers = np.concatenate(found)
    own = leaves[numbers]
    within(own["kind"], 2, "leaves")
    pools = index["pools"]
    for name, array in _PARTS.items():
        spans(own[f"{name}_start"], own[f"{name}_room"], pools[name][array].size, f"{name} rows of leaves")
        covered = np.zeros(pools[name][array].size, dtype=np.uint8)
        rooms = own[f"{name}_room"].astype(np.int64)
        require(cover_taken(own[f"{name}_start"].copy(), rooms, covered), f"{name} rows of leaves overlap")
        require(pools[name]["dead"] <= covered.size, f"{name} rows of leaves are missing")
    for n, room in _COUNTED:
        require((own[n] >= 0).all() and (own[n] <= own[room]).all(), "leaves out of range")
    n_members = np.zeros(leaves.size, dtype=np.int64)
    n_members[numbers] = own["n_members"]
    for name in ("near", "anywhere"):
        slots = np.flatnonzero(homes[name] != stamp.NOWHERE)
        leaf, local = homes[name][slots].astype(np.int64) >> 16, homes[name][slots] & stamp.LOCAL_MASK
        within(leaf, leaves.size, "homes")
        require((local < n_members[leaf]).all(), "homes out of range")
        members = pools["member"]["members"]["slot"][leaves["member_start"][leaf] + local]
        require(np.array_equal(members, slots), "homes are those of others")
    _check_leaves(own, {name: pools[name][array] for name, array in _PARTS.items()}, homes.size, known)


_NUMBERED = (("node", "nodes"), ("leaf", "leaves"))
_PARTS = {"member": "members", "word": "terms", "entry": "entries", "list": "lists"}
_COUNTED = (
    ("n_members", "member_room"), ("n_listed", "n_members"), ("n_dead", "n_members"), ("n_words", "word_room"),
    ("n_entries", "entry_room"), ("n_lists", "list_room"), ("n_later", "n_entries"), ("star_outside", "n_entries"),
    ("star_inside", "n_entries"),
)  # fmt: skip


def _check_slots(slots: State, size: int) -> int:
    """Returns how many numbers have been given."""
    capacity, free = slots["capacity"], slots["free"]
    require(capacity <= size, "slots out of range")
    within(free, capacity, "free slots")
    require(np.unique(free).size == free.size, "a slot is free twice")
    return int(capacity)


def _check_leaves(own: Array, pools: dict[str, Array], n_slots: int, known: Known) -> None:
    """What stands in the leaves of similar."""
    n_members, n_words, n_entries = (own[name].astype(np.int64) for name in ("n_members", "n_words", "n_entries"))
    members = pools["member"][ranges(own["member_start"], n_members)]
    within(members["slot"], n_slots, "members")
    within(members["mode"], 5, "modes of members")
    of_words = np.repeat(n_words, n_members)
    require((members["word_start"] >= 0).all() and (members["word_start"] < of_words).all(), "words of members")
    follows = np.ones(members.size, dtype=bool)
    follows[(np.cumsum(n_members) - n_members)[n_members > 0]] = False
    require((np.diff(members["word_start"])[follows[1:]] > 0).all(), "words of members overlap")
    ends = np.zeros(members.size, dtype=np.int64)
    ends[:-1] = members["word_start"][1:]
    ends[(np.cumsum(n_members) - 1)[n_members > 0]] = n_words[n_members > 0]
    require((members["n_anywhere"] <= ends - members["word_start"]).all(), "words of members out of range")
    terms = pools["word"][ranges(own["word_start"], n_words)]
    within(terms & stamp.TERM_MASK, known.terms.size, "words of members")
    entries = pools["entry"][ranges(own["entry_start"], n_entries)]
    require(((entries & stamp.LOCAL_MASK) < np.repeat(n_members, n_entries)).all(), "entries of leaves out of range")
    n_lists = own["n_lists"].astype(np.int64)
    lists = pools["list"][ranges(own["list_start"], n_lists)]
    filled = lists["term"] != stamp.NO_TERM
    n_empty = np.bincount(np.repeat(np.arange(own.size), n_lists)[~filled], minlength=own.size)
    require(((n_empty > 0) | (n_lists == 0)).all(), "lists of leaves are full")
    within(lists["term"][filled], known.terms.size, "words of leaves")
    ends = lists["start"].astype(np.int64) + lists["n_outside"] + lists["n_inside"] + lists["n_later"]
    inside = (lists["start"] >= 0) & (ends <= np.repeat(n_entries, n_lists))
    require(inside[filled].all(), "lists of leaves out of range")
    require((own["star_outside"].astype(np.int64) + own["star_inside"] <= n_entries).all(), "leaves out of range")


def _check_within(engine: State, known: Known) -> None:
    tree = engine["tree"]
    arrays = tree["arrays"]
    heads, nodes, parts, leaves = (arrays[name] for name in ("heads", "nodes", "parts", "leaves"))
    blocks, listed = arrays["bytes"], arrays["listed"]
    n_lines = blocks.size // (4 * trees.INTS_PER_LINE)
    require(blocks.size == 4 * trees.INTS_PER_LINE * n_lines, "entries of within are missing")
    sizes = {
        trees.N_NODES: nodes.size, trees.N_PARTS: parts.size, trees.N_LEAVES: leaves.size, trees.N_LINES: n_lines,
        trees.N_LISTED: listed.size,
    }  # fmt: skip
    require(all(heads[at] == size for at, size in sizes.items()) and parts.size > 0, "counts of the tree differ")
    require(tree["entries"] == parts["now"][trees.ROOT], "counts of the tree differ")
    order = tree["order"]
    _check_ranks(order)
    require(order["first"] < _RANKS, "ranks out of range")
    within(order["ranks"][order["ranks"] != trees.UNRANKED], order["first"], "ranks", order["lowest"])
    require(arrays["highs"].size == arrays["lines"].size == parts.size, "parts are missing")
    in_nodes, in_leaves, hung = _walk(tree["shadow"], nodes, parts, leaves)
    own, last = nodes[in_nodes], leaves[in_leaves]
    _check_ranges(heads, parts["child"], trees.FREE_PARTS, *_part_ranges(own, tree["shadow"]), "parts")
    _check_leaf_blocks(heads, owned(blocks).view(np.int32), parts[hung], last["room"], known)
    listing = last["message_room"] != trees.NOTHING
    require(not last["n_messages"][~listing].any(), "lists of messages out of range")
    last = last[listing]
    rooms = _rooms(last["message_room"], class_room, trees.N_CLASSES)
    starts, n = last["message_start"].copy(), last["n_messages"]
    require((n >= 0).all() and (n <= rooms).all(), "lists of messages out of range")
    _check_ranges(heads, listed["slot"], trees.FREE_LISTS, starts, rooms, "lists of messages")
    within(listed["slot"][ranges(starts, n)], known.messages.size, "lists of messages")
    _check_free(int(heads[trees.FREE_NODE]), nodes["part"], in_nodes, "nodes")
    _check_free(int(heads[trees.FREE_LEAF]), leaves["part"], in_leaves, "leaves")
    require(trees.NOTHING <= heads[trees.SWEEP] < max(1, leaves.size), "cursors out of range")
    require(trees.NOTHING <= heads[trees.CURSOR] <= known.messages.size, "cursors out of range")
    recent, n_words = tree["recent"], tree["recent"]["n_words"]
    within(n_words, recent["words"].shape[1] + 1, "recent messages")
    within(recent["words"], max(1, known.terms.size), "words of recent messages")


def _check_leaf_blocks(heads: Longs, ints: Array, hung: Array, classes: Array, known: Known) -> None:
    """What the blocks of leaves hold, below parts."""
    lines, used = _rooms(classes, class_room, trees.N_CLASSES), known.subscriptions["within"]
    starts, now = hung["start"].astype(np.int64), hung["now"]
    _check_ranges(heads, ints[:: trees.INTS_PER_LINE], trees.FREE_LINES, starts, lines, "entries of within")
    first = trees.INTS_PER_LINE * starts
    n_alone, n_hashed, shape = (ints[first + at] for at in (trees.N_ALONE, trees.N_HASHED, trees.BLOCK_SHAPE))
    sizes, ranged = np.unique(lines), (shape & trees.RANGED != 0).astype(np.int64)
    rooms = np.array([[int(rows_in_lines(int(n), kind)) for kind in (False, True)] for n in sizes], dtype=np.int64)
    rooms = rooms.reshape(-1, 2)[np.searchsorted(sizes, lines), ranged]
    require(((shape & (trees.RANGED - 1)) >> trees.OPEN_BITS == rooms).all(), "entries of within out of range")
    fields = ints[(first + trees.HEADER + rooms)[ranged == 1] + trees.FIELD]
    within(fields, known.terms.size, "fields of within")
    require((now == ints[first + trees.N_ROWS]).all() and (now <= rooms).all(), "entries of within out of range")
    counted = (n_alone >= 0) & (n_hashed >= 0) & (n_alone.astype(np.int64) + n_hashed <= now)
    require(counted.all(), "entries of within out of range")
    slots = ints[ranges(first + trees.HEADER, now)]
    within(slots, used.size, "entries of within")
    require(used[slots].all(), "entries of nobody")
    within(ints[first + trees.BLOCK_WORD][n_alone > 0], known.terms.size, "words of within")
    known_ones = (n_alone + n_hashed).astype(np.int64)
    several = ranges(first + trees.HEADER + known_ones, now - known_ones)
    hashes = 4 * (first + trees.HEADER + 2 * rooms + trees.FIELD_HEADER * ranged)
    numbers = ints.view(np.uint8)[ranges(hashes + known_ones, now - known_ones)]
    table, counts = known.tables["within"], np.zeros(several.size, dtype=np.int64)
    count_clauses(table["rows"], ints[several], table["clauses"]["clauses"], counts)
    require((numbers < counts).all(), "clauses of within out of range")


def _check_ranks(order: State) -> None:
    """Ranks are given downwards from 0 and have 32 bits."""
    require(-_RANKS < order["lowest"] <= 0, "ranks out of range")


def _walk(shadow: int, nodes: Array, parts: Array, leaves: Array) -> tuple[Longs, Longs, Longs]:
    """From the roots down: all nodes and leaves that hang in the tree, and the parts below which leaves hang.

    A subtree that is being rebuilt has a root of its own, its shadow, which names the node that it will hang from.
    """
    within(np.array([shadow]), parts.size, "parts", -1)
    found, hung = _descend(trees.ROOT, nodes, parts, leaves)
    require(parts["node"][trees.ROOT] == trees.NO_NODE, "the root hangs somewhere")
    if shadow != trees.NOTHING:
        above = parts["node"][shadow]
        require(above == trees.NO_NODE or (found == above).any(), "a subtree hangs nowhere")
        more, hung_below = _descend(shadow, nodes, parts, leaves)
        found, hung = np.concatenate([found, more]), np.concatenate([hung, hung_below])
        require(np.unique(found).size == found.size, "nodes hang twice")
    in_leaves = -2 - parts["child"][hung].astype(np.int64)
    require((leaves["part"][in_leaves] == hung).all(), "leaves do not know where they hang")
    return found, in_leaves, hung


def _descend(root: int, nodes: Array, parts: Array, leaves: Array) -> tuple[Longs, Longs]:
    """All nodes below a part, and the parts below which leaves hang."""
    level = np.array([root], dtype=np.int64)
    found: list[Longs] = [level[:0]]
    hung: list[Longs] = [level[:0]]
    reached = 0
    while level.size:
        children = parts["child"][level].astype(np.int64)
        within(children, nodes.size, "nodes", -1 - leaves.size)
        hung.append(level[children < trees.NOTHING])
        inner = children[children > trees.NOTHING]
        reached += inner.size
        require(reached <= nodes.size, "nodes go in circles")
        require((nodes["part"][inner] == level[children > trees.NOTHING]).all(), "nodes do not know where they hang")
        found.append(inner)
        own = nodes[inner]
        within(own["kind"], 2, "nodes")
        within(own["offset"], trees.N_STEERING + 1, "nodes")
        n_parts = own["n_parts"].astype(np.int64)
        spans(own["first"], n_parts + 1, parts.size, "parts")
        grids_of = own["kind"] == trees.SPACE
        n_columns = own["n_columns"][grids_of].astype(np.int64)
        n_rows = own["n_rows"][grids_of].astype(np.int64)
        require(((n_columns >= 1) & (n_columns * n_rows == n_parts[grids_of])).all(), "no grid")
        dummies = parts["child"][own["first"]] != trees.NOTHING
        require((dummies == own["has_dummy"]).all(), "nodes do not know what hangs below them")
        level = ranges(own["first"].astype(np.int64), n_parts + 1)
        require((parts["node"][level] == np.repeat(inner, n_parts + 1)).all(), "parts do not know their nodes")
    return np.concatenate(found), np.concatenate(hung)


def _part_ranges(nodes: Array, shadow: int) -> tuple[Longs, Longs]:
    """Where parts are in use, and how many: those of nodes, the root's, and that of a tree that is being built."""
    n_parts = nodes["n_parts"].astype(np.int64) + 1
    most = int(n_parts.max(initial=0))
    table = np.array([int(class_room(class_of(n))) for n in range(most + 1)], dtype=np.int64)
    alone = [trees.ROOT] if shadow == trees.NOTHING else [trees.ROOT, shadow]
    return np.append(nodes["first"].astype(np.int64), alone), np.append(table[n_parts], np.ones(len(alone), np.int64))


def _check_ranges(heads: Longs, links: Array, free: int, starts: Longs, rooms: Longs, what: str) -> None:
    covered = np.zeros(links.size, dtype=np.uint8)
    require(cover_taken(starts, rooms, covered), f"{what} overlap")
    require(cover_free_ranges(heads, np.ascontiguousarray(links), free, covered), f"{what} overlap")


def _check_free(first: int, links: Array, used: Longs, what: str) -> None:
    """A chain of free ones ends, and holds none that is in use."""
    seen = np.zeros(links.size, dtype=bool)
    seen[used] = True
    while first != trees.NOTHING:
        require(0 <= first < links.size and not seen[first], f"free {what} go in circles")
        seen[first] = True
        first = int(links[first])
