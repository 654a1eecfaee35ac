"""A state from a file goes in; nothing comes out, unless a number in it points outside of what it refers to.

Kernels do not look where an index leads. Before the arrays of a file are given to them, every slot, term, start and
length that they go by must lie inside its array, chains must end, and ranges that are handed out must not overlap.
This needs one look at each array. What is not asked is whether the numbers are the right ones: `check` does, in tests.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.broker.snapshots.field_references import are_field_keys, check_conditions, check_fields
from nearcast.broker.snapshots.structure import require, spans, within
from nearcast.columns.arena import Array, State, ranges
from nearcast.columns.regions import BOX, CIRCLE, POLYGON
from nearcast.columns.times import FOREVER
from nearcast.model.expression import MAX_CLAUSES
from nearcast.model.instant import LONGEST_MS
from nearcast.model.kinds import LABELS
from nearcast.text.key_kernels import (
    ARENA_DEAD,
    ARENA_END,
    CAPACITY,
    EMPTY,
    FREE,
    HASHED,
    LEAST_SLOTS,
    LIVE,
    LOW,
    count_free,
)
from nearcast.text.key_table import Keys
from nearcast.window.index.index import RECENT_ROOM
from nearcast.window.index.segments import NO_TERM, first_node, leaf_depth, n_boxes, nodes_at

Mask = npt.NDArray[np.bool_]

_POOLS = {"members": "member", "boxes": "box", "lists": "list", "skips": "skip", "postings": "posting"}
_NEWEST = 2**62  # no sequence is larger
_MODES = {"similar": 5, "topk": 1, "nearest": 2}


class Known(NamedTuple):
    """What engines refer to."""

    terms: Mask  # bool[n_terms]: is it that of a word, or of a field's name or value?
    messages: Mask  # bool[n_message_slots]: is one stored there?
    subscriptions: dict[str, Mask]  # by kind, bool[n_slots]: is there one?
    tables: State


def check_messages_and_subscriptions(state: State) -> Known:
    """Raise ValueError if words, messages or subscriptions point outside; returns what there is to refer to."""
    vocabulary, live, tables = state["vocabulary"], state["live"], state["tables"]
    terms = _check_keys(_named(vocabulary, "keys."), "words")
    keys = terms & are_field_keys(vocabulary["keys.entries"], vocabulary["keys.arena"])
    words = terms & ~keys
    _check_text(_named(vocabulary, "keys."), words)
    weighed = _check_keys(_named(vocabulary, "weights.keys."), "weighed words")
    require(vocabulary["weights.df"].size >= weighed.size, "weights of words are missing")
    require(vocabulary["idf"].size >= terms.size, "weights of words are missing")
    messages = _check_messages(live, words)
    check_fields(live["table"]["fields"], messages, keys)
    if "segments" in live["index"]:
        _check_index(live["index"], messages.size, terms.size)
    subscriptions = _check_registry(state["registry"], tables)
    for kind, used in subscriptions.items():
        used_rows = tables[kind]["rows"][: used.size][used]
        held = _check_keys(tables[kind]["conditions"]["texts"], f"conditions of {kind}")
        _check_text(tables[kind]["conditions"]["texts"], held)
        check_conditions(tables[kind]["conditions"], held, used_rows["condition"], keys)
        if kind == "within":
            _check_regions(tables[kind], used_rows, words, terms)
        else:
            _check_points(kind, tables[kind], used_rows, words)
    return Known(terms, messages, subscriptions, tables)


def chain(first: int | Array, following: Array, size: int, what: str, end: int = -1) -> None:
    """Require that chains over numbers below `size` end: no number has two before it."""
    links = np.append(following.astype(np.int64), first)
    links = links[links != end] - (1 + end)
    within(links, size, what)
    require(np.unique(links).size == links.size, f"{what} go in circles")


def _named(state: State, start: str) -> State:
    return {name.removeprefix(start): value for name, value in state.items() if name.startswith(start)}


def _check_keys(keys: State, what: str) -> Mask:
    """Returns which numbers are in use."""
    slots, entries, counters = keys["slots"], keys["entries"], keys["counters"]
    lengths, starts, hashed = entries["length"], entries["start"], entries["hashed"] != 0
    live: Mask = lengths != FREE
    require(slots.size >= LEAST_SLOTS and slots.size & (slots.size - 1) == 0, f"{what}: places out of range")
    sizes = (counters[CAPACITY], entries.size), (counters[ARENA_END], keys["arena"].size)
    require(all(counted == there for counted, there in sizes), f"{what}: counts differ")
    spans(starts[live], lengths[live], keys["arena"].size, what)
    n_free = count_free(Keys().load(keys).layout)
    require(n_free == np.count_nonzero(~live), f"{what}: those that are free are not in a chain")
    filed = slots[slots != EMPTY]
    within(filed, 2**63, what)
    numbers = filed & LOW
    within(numbers, entries.size, what)
    require(np.array_equal(np.sort(numbers), np.flatnonzero(live & hashed)), f"{what}: one cannot be found")
    require(counters[HASHED] == numbers.size < slots.size, f"{what}: counts differ")
    require(counters[LIVE] == np.count_nonzero(live), f"{what}: counts differ")
    require(0 <= counters[ARENA_DEAD] <= counters[ARENA_END], f"{what}: counts differ")
    return live


def _check_text(keys: State, live: Mask) -> None:
    """Raises ValueError unless keys are UTF-8: `pa.ArrowInvalid` is one."""
    Keys().load(keys).to_arrow_strings(np.flatnonzero(live).astype(np.int32)).validate(full=True)


def _check_ids(ids: State, what: str) -> Mask:
    live = _check_keys(ids["keys"], what)
    if ids["type"] == "string":
        _check_text(ids["keys"], live)
    require(ids["type"] is not None or not live.any(), f"{what} have no type")
    require(ids["type"] != "integer" or ids["integers"].size >= live.size, f"{what} are missing")
    return live


def _check_messages(live: State, terms: Mask) -> Mask:
    """Returns in which slots messages are stored."""
    table, rows = live["table"], live["table"]["rows"]
    held = _check_ids(table["ids"], "ids of messages")
    stored: Mask = rows["sequence"] != 0
    require(np.array_equal(np.flatnonzero(stored), np.flatnonzero(held)), "messages and their ids differ")
    within(rows["sequence"], _NEWEST, "sequences")
    require(live["last"] < _NEWEST, "sequences out of range")
    require((rows["withdrawn_by"][stored] == FOREVER).all(), "messages are withdrawn, and there")
    _check_words(rows[stored], table["words"], terms, "words of messages")
    _check_order(table, stored, terms)
    within(live["queue"], rows.size, "messages that wait for their end")
    _check_heap(live["expiries"], rows.size)
    return stored


def _check_words(rows: Array, words: State, terms: Mask, what: str) -> None:
    """Words of rows in use that have a place."""
    pool = words["terms"]
    require(np.isfinite(rows["x"]).all() and np.isfinite(rows["y"]).all(), "places out of range")
    require("counts" not in words or words["counts"].size == pool.size, f"{what} have no counts")
    require(words["dead"] <= pool.size, f"{what} out of range")
    spans(rows["term_start"], rows["n_terms"], pool.size, what)
    own = pool[ranges(rows["term_start"], rows["n_terms"])]
    within(own, terms.size, what)
    require(terms[own].all(), f"{what} are no words")


def _check_order(table: State, stored: Mask, terms: Mask) -> None:
    """The words of texts in their order."""
    rows, pools = (
        table["order_rows"],
        [table["order"][name] for name in ("order", "surfaces") if name in table["order"]],
    )
    require(rows.size >= stored.size, "the order of words is missing")
    rows = rows[: stored.size][stored]
    lengths = np.abs(rows["n"].astype(np.int64))
    for pool in pools:
        require(table["order"]["dead"] <= pool.size == pools[0].size, "the order of words is out of range")
        spans(rows["start"], lengths, pool.size, "the order of words")
        own = pool[ranges(rows["start"], lengths)]
        within(own, terms.size, "the order of words")
        require(terms[own].all(), "words in their order are no words")


def _check_heap(heap: State, size: int) -> None:
    times = heap["times"]
    require(times.size == heap["serials"].size == heap["slots"].size, "ends differ")
    within(heap["slots"], size, "what ends")
    require((times[1:] >= times[(np.arange(1, times.size) - 1) // 2]).all(), "ends are out of order")


def _check_registry(registry: State, tables: State) -> dict[str, Mask]:
    """Returns for each kind which slots of its table are used."""
    held = _check_ids(registry["ids"], "ids of subscriptions")
    kinds, slots, numbers = registry["kinds"], registry["slots"], np.flatnonzero(held)
    for name in ("kinds", "slots", "serials"):
        require(registry[name].size >= held.size, "subscriptions are missing")
    _check_heap(registry["expiries"], held.size)
    within(kinds[numbers], len(LABELS), "kinds")
    used = {}
    for kind, name in enumerate(LABELS):
        own, table = numbers[kinds[numbers] == kind], tables[name]
        capacity, free = table["slots"]["capacity"], table["slots"]["free"]
        owners = table["numbers"][:capacity]
        sized = [table["rows"], table["numbers"], *([table["scales"]] if name in ("similar", "topk") else [])]
        require(all(array.size >= capacity for array in sized), f"subscriptions of {name} are missing")
        within(slots[own], capacity, f"slots of {name}")
        within(free, capacity, f"free slots of {name}")
        require((owners[slots[own]] == own).all(), f"subscriptions of {name} differ")
        require(np.count_nonzero(owners >= 0) == own.size == capacity - free.size, f"subscriptions of {name} differ")
        require((owners[free] < 0).all() and np.unique(free).size == free.size, f"free slots of {name} are used")
        used[name] = owners >= 0
    return used


def _check_points(kind: str, table: State, rows: Array, terms: Mask) -> None:
    _check_words(rows, table["words"], terms, f"words of {kind}")
    within(rows["n_terms"], 2**31, f"words of {kind}", 1)
    within(rows["mode"], _MODES[kind], f"modes of {kind}")
    within(rows["k"], 2**31, f"k of {kind}", 0 if kind == "similar" else 1)
    half_lives = table["half_lives"]
    require(half_lives.size == 0 or kind == "topk", f"half-lives of {kind}")
    known = half_lives.size == 0 or half_lives.size >= table["slots"]["capacity"]
    require(known, f"half-lives of {kind} are missing")
    within(half_lives, LONGEST_MS + 1, f"half-lives of {kind}")


def _check_regions(table: State, rows: Array, words: Mask, terms: Mask) -> None:
    packed, shapes = table["clauses"]["clauses"], table["shapes"]
    own, filed = (rows[f"{name}_size"].astype(np.int64) for name in ("clause", "filed"))
    keyed = rows["filed_start"] != rows["clause_start"]
    require((own == filed)[~keyed].all(), "clauses differ")
    _check_clauses(rows["clause_start"], own, packed, words)
    starts = np.concatenate([rows["clause_start"], rows["filed_start"][keyed]])
    _check_clauses(starts, np.concatenate([own, filed[keyed]]), packed, terms)
    require(not any(np.isnan(rows[side]).any() for side in ("x0", "y0", "x1", "y1")), "regions are no regions")
    xs, rings = shapes["points"]["xs"], shapes["rings"]["ring_start"]
    require(xs.size == shapes["points"]["ys"].size, "points differ")
    for pool, size in ((table["clauses"], packed.size), (shapes["points"], xs.size), (shapes["rings"], rings.size)):
        require(pool["dead"] <= size, "pools out of range")
    shape, starts, n_rings = rows["region_kind"], rows["ring_start"].astype(np.int64), rows["n_rings"]
    require(np.isin(shape, (BOX, CIRCLE, POLYGON)).all() and ((n_rings == 0) == (shape == BOX)).all(), "no regions")
    shaped = shape != BOX
    starts, n_rings, shape = starts[shaped], n_rings[shaped].astype(np.int64), shape[shaped]
    require((n_rings >= 2).all(), "rings out of range")
    spans(starts, n_rings, rings.size, "rings")
    where = ranges(starts, n_rings)
    within(rings[where], xs.size + 1, "rings")
    follows = np.ones(where.size, dtype=bool)
    follows[np.cumsum(n_rings) - n_rings] = False
    lengths = rings[where][follows] - rings[where - 1][follows]
    is_polygon = np.repeat(shape == POLYGON, n_rings)[follows]
    require(((lengths >= 2) | (is_polygon & (lengths == 0))).all(), "rings out of range")


def _check_clauses(starts: Array, sizes: Array, packed: Array, terms: Mask) -> None:
    spans(starts, sizes, packed.size, "clauses")
    is_term = np.zeros(packed.size, dtype=bool)
    is_term[ranges(starts, sizes)] = True
    require(np.count_nonzero(is_term) == sizes.sum() and (sizes > 0).all(), "clauses overlap")
    at, end = starts.astype(np.int64), starts + sizes
    for _ in range(MAX_CLAUSES + 1):
        require((at + 2 <= end).all(), "clauses out of range")
        n_positive, n_negative = packed[at].astype(np.int64), packed[at + 1].astype(np.int64)
        is_term[at] = is_term[at + 1] = False
        require((n_positive >= 1).all() and (n_negative >= 0).all(), "clauses out of range")
        at = at + 2 + n_positive + n_negative
        require((at <= end).all(), "clauses out of range")
        at, end = at[at < end], end[at < end]
        if not at.size:
            break
    require(not at.size, "clauses are too many")
    within(packed[is_term], terms.size, "words of within")
    require(terms[packed[is_term]].all(), "words of within are no words")


def _check_index(index: State, n_messages: int, n_terms: int) -> None:
    require(index["recent"].size <= RECENT_ROOM, "too many recent messages")
    within(index["recent"]["slot"], n_messages, "recent messages")
    segments = index["segments"]
    for pool, name in _POOLS.items():
        starts, lengths = segments[f"{name}_start"], segments[f"n_{pool}"]
        filled = lengths != 0
        spans(starts[filled], lengths[filled], index[pool].size, f"{pool} of segments")
        order = np.argsort(starts[filled])
        ends = (starts + lengths)[filled][order]
        require((starts[filled][order][1:] >= ends[:-1]).all(), f"{pool} of segments overlap")
    require((segments["n_withdrawn"] >= 0).all(), "segments out of range")
    require(index["times"].size == index["boxes"].size, "times of segments are missing")
    for segment in segments:
        own = {
            pool: index[pool][int(segment[f"{name}_start"]) :][: int(segment[f"n_{pool}"])]
            for pool, name in _POOLS.items()
        }
        within(own["members"]["slot"], n_messages, "members of a segment")
        _check_segment(int(segment["depth"]), own, n_terms)


def _check_segment(depth: int, own: State, n_terms: int) -> None:
    n, lists = own["members"].size, own["lists"]
    require(n > 0 and depth == leaf_depth(n) and own["boxes"].size == n_boxes(n), "a segment has another shape")
    require(lists.size & (lists.size - 1) == 0 and (lists["term"] == NO_TERM).any(), "lists of a segment are full")
    lists = lists[lists["term"] != NO_TERM]
    within(lists["term"], n_terms, "words of a segment")
    spans(lists["start"], lists["n"], own["postings"].size, "lists of a segment")
    within(own["postings"]["rank"], n, "postings")
    within(lists["depth"], depth + 1, "skips of a segment")
    for level in range(1, depth + 1):
        skips = lists["skip"][lists["depth"] == level]
        needed = int(first_node(level)) - 1 + int(nodes_at(n, depth, level))
        spans(skips, np.full(skips.size, needed), own["skips"].size, "skips of a segment")
    within(own["skips"]["start"], own["postings"].size + 1, "skips of a segment")
    within(own["skips"]["end"], own["postings"].size + 1, "skips of a segment")
