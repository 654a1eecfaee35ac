from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from nearcast.columns.clauses import pack_clauses, split_clauses
from nearcast.columns.decode_subscriptions import Rules, decode_subscriptions
from nearcast.columns.regions import region_rows
from nearcast.columns.scores import gather, scatter
from nearcast.columns.subscription_tables import ENDED, PointTable, WithinTable, clauses_hold, in_region
from nearcast.columns.times import FOREVER
from nearcast.model.kinds import Kind
from nearcast.model.query import Nearest, Similar, Subscription, TopK, Within
from nearcast.model.region import Box, Circle, Polygon
from nearcast.space.space import Space
from nearcast.text.vocabulary import Vocabulary
from nearcast.text.weights import Weights
from nearcast.text.words import from_lists

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
PLANE = Space((0, 0, 8, 8), metric="euclidean")
TRIANGLE = Polygon([(0, 0), (4, 0), (0, 4)])


def insert(table: PointTable | WithinTable, subscriptions: list[Subscription], since: int = 7) -> np.ndarray:
    """Store subscriptions of one kind; their ids are their numbers."""
    (part,) = decode_subscriptions(subscriptions, Rules(PLANE, True, None)).parts
    terms = table.vocabulary.encode(from_lists(part.words))
    numbers = np.array(part.ids.to_pylist(), dtype=np.int32)
    if isinstance(table, WithinTable):
        return table.insert(part.given, *pack_clauses(terms, part.n_clauses), numbers, since)
    return table.insert(part.given, terms, numbers, since)


def words_of(table: PointTable, slot: int) -> dict[str, int]:
    layout = table.layout
    row = layout.rows[slot]
    where = slice(row["term_start"], row["term_start"] + row["n_terms"])
    names = [table.vocabulary.word(term) for term in layout.terms[where].tolist()]
    return dict(zip(names, layout.counts[where].tolist(), strict=True))


def clauses_of(table: WithinTable, slot: int) -> list[tuple[list[str], list[str]]]:
    layout = table.layout
    row = layout.rows[slot]
    packed = layout.clauses[row["clause_start"] : row["clause_start"] + row["clause_size"]]
    word = table.vocabulary.word
    return [([word(t) for t in yes.tolist()], [word(t) for t in no.tolist()]) for yes, no in split_clauses(packed)]


def test_a_point_subscription_is_stored_with_all_that_was_said() -> None:
    weights = Weights.fit(["ramen", "ramen sushi"])
    table = PointTable(Vocabulary(weights), Kind.TOPK)
    slots = insert(
        table,
        [
            Subscription(3, TopK(1, 2, "sushi ramen ramen", k=5, alpha=0.25)),
            Subscription(4, TopK(-1, 0, ["road works"], backfill=False), expires=99),
        ],
    )
    rows = table.rows[slots]
    assert rows[["x", "y", "k", "expires", "since"]].tolist() == [(1.0, 2.0, 5, FOREVER, 0), (-1.0, 0.0, 20, 99, 7)]
    assert table.scales["alpha"][slots].tolist() == [0.25, 0.5]
    assert table.numbers[slots].tolist() == [3, 4]
    assert [words_of(table, slot) for slot in slots.tolist()] == [{"ramen": 2, "sushi": 1}, {"road works": 1}]
    ramen, sushi = weights.weight("ramen"), weights.weight("sushi")
    assert table.scales["norm"][slots[0]] == pytest.approx(((2 * ramen) ** 2 + sushi**2) ** 0.5)
    assert len(table) == 2
    assert table.used_slots.tolist() == sorted(slots.tolist())
    table.vocabulary.set_weights(Weights())
    table.measure(slots)
    assert table.scales["norm"][slots].tolist() == [5**0.5, 1.0]


def test_modes_and_thresholds() -> None:
    similar, nearest = PointTable(Vocabulary(), Kind.SIMILAR), PointTable(Vocabulary(), Kind.NEAREST)
    slots = insert(
        similar, [Subscription(0, Similar(1, 1, "a b b", 0.5, 0.75, "dice")), Subscription(1, Similar(1, 1, "a", 0, 1))]
    )
    assert similar.scales[slots][["delta", "tau", "weight"]].tolist() == [(0.5, 0.75, 2.0), (0.0, 1.0, 1.0)]
    assert similar.rows["mode"][slots].tolist() == [3, 0]
    slots = insert(nearest, [Subscription(0, Nearest(1, 1, "a", 3, "any")), Subscription(1, Nearest(1, 1, "a"))])
    assert nearest.rows[slots][["k", "mode"]].tolist() == [(3, 1), (10, 0)]


def test_without_scores_there_are_no_scales_and_no_counts() -> None:
    table, other = PointTable(Vocabulary(), Kind.NEAREST), PointTable(Vocabulary(), Kind.NEAREST)
    slots = insert(table, [Subscription(n, Nearest(n, n, f"a b b{n}")) for n in range(3)])
    table.measure(slots)
    table.remove(slots[:1])
    added = other.add_copied(table.copy(slots[1:]), np.array([8, 9], dtype=np.int32))
    assert other.numbers[added].tolist() == [8, 9]
    assert other.rows[["x", "k"]][added].tolist() == [(1.0, 10), (2.0, 10)]
    loaded = PointTable(table.vocabulary, Kind.NEAREST)
    loaded.load(table.state())
    for them in (table, other, loaded):
        assert them.layout.scales.size == them.layout.counts.size == 0


def test_points_move() -> None:
    table = PointTable(Vocabulary(), Kind.NEAREST)
    slots = insert(table, [Subscription(n, Nearest(n, n, "a")) for n in range(3)])
    with table.moving(slots[1:2], np.array([[5.0, 6.0]])) as before:
        pass
    assert before[["x", "y"]].tolist() == [(1, 1)]
    assert table.rows[["x", "y"]][slots].tolist() == [(0, 0), (5, 6), (2, 2)]


def holds(table: WithinTable, slot: int, words: str) -> bool:
    terms = table.vocabulary.encode(from_lists([words.split()])).terms
    dense = np.zeros(table.vocabulary.idf.size)
    counts = np.ones(terms.size, dtype=np.int32)
    scatter(terms, counts, 0, terms.size, table.vocabulary.idf, dense)
    answer = bool(clauses_hold(table.layout, slot, dense))
    gather(terms, 0, terms.size, dense)
    assert not dense.any()
    return answer


def test_clauses_hold() -> None:
    table = WithinTable(Vocabulary())
    slots = insert(
        table,
        [
            Subscription(0, Within(Box(0, 0, 1, 1), "fire AND (smoke OR ash) AND NOT camp")),
            Subscription(1, Within(Box(0, 0, 1, 1), ["fire", "smoke"])),
        ],
    ).tolist()
    assert sorted(clauses_of(table, slots[0])) == [(["ash", "fire"], ["camp"]), (["fire", "smoke"], ["camp"])]
    assert clauses_of(table, slots[1]) == [(["fire", "smoke"], [])]
    for words, first, second in [
        ("fire smoke", True, True),
        ("fire ash", True, False),
        ("fire smoke camp", False, True),
        ("fire", False, False),
        ("", False, False),
        ("smoke ash other", False, False),
    ]:
        assert (holds(table, slots[0], words), holds(table, slots[1], words)) == (first, second), words


def inside(table: WithinTable, slot: int, x: float, y: float) -> bool:
    return bool(in_region(table.layout, slot, PLANE.metric_code, float(x), float(y)))


def test_places_in_regions() -> None:
    table = WithinTable(Vocabulary())
    regions: list[Any] = [Box(0, 0, 2, 1), Circle(1, 1, 1), TRIANGLE]
    slots = insert(table, [Subscription(n, Within(region, "a")) for n, region in enumerate(regions)]).tolist()
    box, circle, triangle = slots
    assert inside(table, box, 2, 1)
    assert not inside(table, box, 2, 1.5)
    assert inside(table, circle, 1, 2)
    assert inside(table, circle, 0, 1)
    assert not inside(table, circle, 0, 0)
    assert inside(table, triangle, 2, 2)
    assert not inside(table, triangle, 2.5, 2)
    moving = np.array([box, circle], dtype=np.int32)
    with table.moving(moving, region_rows([TRIANGLE, Box(5, 5, 6, 6)], PLANE)) as before:
        old = table.layout._replace(rows=before)
        assert in_region(old, 0, PLANE.metric_code, 2.0, 1.0)
        assert in_region(old, 1, PLANE.metric_code, 0.0, 1.0)
        assert not in_region(old, 1, PLANE.metric_code, 0.0, 0.0)
    assert not inside(table, box, 2.5, 2)
    assert inside(table, box, 1, 1)
    assert inside(table, circle, 6, 5)
    assert not inside(table, circle, 1, 1)


def test_tables_keep_what_is_theirs_and_settle_under_churn() -> None:
    vocabulary = Vocabulary()
    points, within = PointTable(vocabulary, Kind.TOPK), WithinTable(vocabulary)
    sizes = []
    rounds = 60 if COMPILED else 24
    kept: list[tuple[int, int]] = []
    for n in range(rounds):
        batch = range(100 * n, 100 * n + 40)
        here = insert(points, [Subscription(i, TopK(i, i, f"a b c d e f g h w{i}")) for i in batch])
        there = insert(within, [Subscription(i, Within(Circle(i, 0, 1), f"(a b c d) OR NOT f x{i}")) for i in batch])
        with within.moving(there[:20], region_rows([TRIANGLE] * 20, PLANE)):
            pass
        for table, slots in ((points, here), (within, there)):
            table.remove(slots[2:])
        kept += zip(here[:2].tolist(), there[:2].tolist(), strict=True)
        if len(kept) > 10:
            gone, kept = kept[:-10], kept[-10:]
            points.remove(np.array([slot for slot, _ in gone], dtype=np.int32))
            within.remove(np.array([slot for _, slot in gone], dtype=np.int32))
        sizes.append(points.nbytes + within.nbytes)
        assert len(points) == len(within) == len(kept)
        for here, there in kept:
            number = int(points.numbers[here])
            assert words_of(points, here).keys() == {*"abcdefgh", f"w{number}"}
            assert sorted(clauses_of(within, there))[0] == (["a", "b", "c", "d"], [])
            assert inside(within, there, 0, 4)
            assert not inside(within, there, 2.5, 2)
    assert max(sizes[rounds // 2 :]) <= 1.5 * max(sizes[: rounds // 2])
    used = np.zeros(vocabulary.capacity, dtype=bool)
    points.mark_terms(used)
    within.mark_terms(used)
    words = {vocabulary.word(term) for term in np.flatnonzero(used).tolist()}
    numbers = points.numbers[[slot for slot, _ in kept]].tolist()
    assert words == {*"abcdefgh"} | {f"{letter}{n}" for n in numbers for letter in "wx"}


def test_tables_are_what_they_were_after_load() -> None:
    vocabulary = Vocabulary()
    points, within = PointTable(vocabulary, Kind.TOPK), WithinTable(vocabulary)
    insert(points, [Subscription(n, TopK(n, n, f"a b{n}")) for n in range(5)])
    insert(within, [Subscription(n, Within(TRIANGLE, f"a OR c{n}")) for n in range(5)])
    points.remove(np.array([2], dtype=np.int32))
    within.remove(np.array([2], dtype=np.int32))
    other_points, other_within = PointTable(vocabulary, Kind.TOPK), WithinTable(vocabulary)
    other_points.load(points.state())
    other_within.load(within.state())
    for table in (other_points, other_within):
        assert table.used_slots.tolist() == [0, 1, 3, 4]
        assert np.flatnonzero(table.rows["expires"] == ENDED).tolist() == [2]
    for slot in (0, 1, 3, 4):
        assert words_of(other_points, slot) == words_of(points, slot)
        assert clauses_of(other_within, slot) == clauses_of(within, slot)
        assert inside(other_within, slot, 2, 2)
    assert insert(other_points, [Subscription(9, TopK(0, 0, "z"))]).tolist() == [2]
    assert insert(other_within, [Subscription(9, Within(Box(0, 0, 1, 1), "z"))]).tolist() == [2]
