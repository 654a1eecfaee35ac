"""What every way to split must keep, whatever the subscriptions."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nearcast.errors import InvalidInput
from nearcast.partition.costs import keyword_costs, own_costs, own_parts
from nearcast.partition.dkm import Splitter
from nearcast.partition.footprint import find_footprints
from nearcast.partition.greedy import assign_heaviest_first, assign_in_turn, assign_parts
from nearcast.partition.partition import METHODS, Partition, SplitSettings, fit, split
from nearcast.partition.quadtree_sets import Order, space_sets
from nearcast.partition.sample import Sample
from partition.test_costs import SPACES, columnar, town

WAYS = [(method, SplitSettings(gamma1=3, theta=3, window=False)) for method in METHODS] + [
    ("dkm", SplitSettings(by_set=True, gamma1=3))
]
NAMES = [*METHODS, "dkm by sets"]


def scene(n: int = 200, n_messages: int = 80, seed: int = 3) -> tuple[pa.Table, pa.Table]:
    messages, asked = town(SPACES[0], n_messages, n, seed)
    return columnar(asked), columnar(messages)


@pytest.mark.parametrize(("method", "settings"), WAYS, ids=NAMES)
def test_every_subscription_has_a_shard_and_loads_are_sums(method: str, settings: SplitSettings) -> None:
    asked, messages = scene()
    partition, shards = fit(method, asked, messages, 4, SPACES[0], settings=settings)
    assert shards.dtype == np.int32
    assert shards.shape == (asked.num_rows,)
    assert set(shards.tolist()) == set(range(4))
    assert partition.loads.shape == (4,)
    again, same = fit(method, asked, messages, 4, SPACES[0], settings=settings)
    assert np.array_equal(shards, same)
    assert np.array_equal(partition.loads, again.loads)
    if method != "space" and not settings.by_set:  # those charge a set as a whole
        sums = np.bincount(shards, partition.costs(asked), 4)
        assert np.allclose(partition.loads, sums)
        if method != "hash":
            assert np.ptp(sums) <= partition.costs(asked).max() + 1e-9
            partition.release(shards, partition.costs(asked))
            assert np.allclose(partition.loads, 0.0)


@pytest.mark.parametrize(("method", "settings"), WAYS, ids=NAMES)
def test_new_subscriptions_go_where_there_is_least_to_do(method: str, settings: SplitSettings) -> None:
    asked, messages = scene()
    more, _ = scene(60, 80, 9)
    partition, _ = fit(method, asked, messages, 4, SPACES[0], settings=settings)
    kept: Any = pickle.loads(pickle.dumps(partition.state()))
    restored = Partition.load(kept)
    loads, costs = partition.loads.copy(), partition.costs(more)
    shards = partition.assign(more)
    assert np.array_equal(restored.assign(more), shards)
    assert np.array_equal(restored.loads, partition.loads)
    assert (costs > 0).all()
    assert partition.held.sum() == 260
    if method == "dkm" and not settings.by_set:
        assert np.ptp(np.bincount(shards, minlength=4)) <= 6
        assert np.ptp(partition.loads) <= 2 * costs.max()
    for shard, cost in zip(shards, costs, strict=True):
        if method in ("keyword", "space") or settings.by_set:
            assert shard == loads.argmin()
        loads[shard] += cost
    assert np.allclose(loads, partition.loads)
    one_by_one = Partition.load(kept)
    assert [one_by_one.assign(more.slice(i, 1))[0] for i in range(more.num_rows)] == shards.tolist()
    partition.release(shards, costs)
    partition.release([0], [1e12])
    assert partition.loads.min() == 0.0


@pytest.mark.parametrize(("method", "settings"), WAYS, ids=NAMES)
def test_nothing_to_go_by(method: str, settings: SplitSettings) -> None:
    asked, messages = scene(40)
    for given, sample, n_shards in (
        (asked, None, 3), (asked, messages.slice(0, 0), 3), (asked.slice(0, 0), messages, 3), (asked, messages, 1),
        (asked.slice(0, 1), messages, 3), (pa.concat_tables([asked.slice(3, 1)] * 30), messages, 3),
    ):  # fmt: skip
        partition, shards = fit(method, given, sample, n_shards, SPACES[0], settings=settings)
        assert shards.size == given.num_rows
        assert ((shards >= 0) & (shards < n_shards)).all()
        more = partition.assign(asked)
        assert ((more >= 0) & (more < n_shards)).all()
        if method not in ("space", "hash") and given.num_rows == 30:  # all the same
            assert np.ptp(np.bincount(shards, minlength=n_shards)) <= 1
        assert np.isfinite(Partition.load(partition.state()).loads).all()


def test_malformed_rows_get_some_shard_and_cost_nothing() -> None:
    asked, messages = scene(20)
    bad = asked.set_column(asked.column_names.index("kind"), "kind", pa.array(["nonsense"] * 20))
    partition, shards = fit("dkm", pa.concat_tables([asked, bad]), messages, 3, SPACES[0])
    assert shards.size == 40
    before = partition.loads.copy()
    more = partition.assign(bad)
    assert ((more >= 0) & (more < 3)).all()
    assert np.array_equal(before, partition.loads)
    assert partition.held.sum() == 20
    hashed, _ = fit("hash", bad, None, 3, SPACES[0])
    assert hashed.loads.sum() == 20


def test_refusals_name_what_was_given() -> None:
    asked, messages = scene(5)
    with pytest.raises(InvalidInput, match="method must be one of dkm, keyword, space, hash, got 'best'"):
        fit("best", asked, messages, 3, SPACES[0])
    with pytest.raises(InvalidInput, match="n_shards must be >= 1, got 0"):
        fit("dkm", asked, messages, 0, SPACES[0])
    with pytest.raises(InvalidInput, match="gamma1 must be >= 1, got 0"):
        SplitSettings(gamma1=0)


def test_dealing_parts_evens_out_each_of_them() -> None:
    rng = np.random.default_rng(6)
    parts = rng.integers(1, 9, (400, 2)).astype(np.float64) * [1.0, 1000.0]
    sums, right = np.zeros((5, 2)), []
    for own, total in zip(parts, parts.cumsum(axis=0), strict=True):
        growth = (((sums + own) / total) ** 2 - (sums / total) ** 2).sum(axis=1)
        right.append(int(growth.round(12).argmin()))
        sums[right[-1]] += own
    takers = assign_parts(parts, np.zeros((5, 2)))
    assert takers.tolist() == right
    held = np.array([np.bincount(takers, parts[:, part], 5) for part in range(2)])
    assert (np.ptp(held, axis=1) <= 2 * parts.max(axis=0)).all()
    one_part = parts[:, 0] * 0.5 + 1.0
    assert (
        assign_parts(one_part[:, np.newaxis], np.zeros((5, 1))).tolist()
        == assign_in_turn(one_part, np.zeros(5)).tolist()
    )
    nothing = assign_parts(np.column_stack([np.zeros(400), parts[:, 1]]), np.zeros((5, 2)))
    assert np.ptp(np.bincount(nothing, parts[:, 1], 5)) <= parts[:, 1].max()


def test_looks_and_checks_are_spread_evenly_each() -> None:
    asked, messages = scene(500)
    sample = Sample(SPACES[0], messages)
    found = find_footprints(asked, sample)
    shards, loads, _ = split("dkm", found, sample, 4, SplitSettings())
    parts = own_parts(found, sample, 125)
    held = np.array([np.bincount(shards, parts[:, part], 4) for part in range(2)])
    assert (np.ptp(held, axis=1) <= 2 * parts.max(axis=0)).all()
    assert np.allclose(held.sum(axis=0), loads)
    assert np.allclose(parts.sum(axis=1), own_costs(found, sample, 125))


def test_dealing_takes_the_least_loaded_and_the_first_of_equals() -> None:
    rng = np.random.default_rng(4)
    costs, loads = rng.integers(1, 9, 300).astype(np.float64), np.array([5.0, 0.0, 5.0, 7.0, 0.0])
    expected, right = loads.copy(), []
    for cost in costs:
        right.append(int(expected.argmin()))
        expected[right[-1]] += cost
    assert assign_in_turn(costs, loads).tolist() == right
    assert np.array_equal(loads, expected)
    held = np.bincount(assign_heaviest_first(costs, np.zeros(7)), costs, 7)
    assert held.max() <= 4 / 3 * max(costs.sum() / 7, costs.max())  # Graham's bound, heaviest first


@pytest.mark.parametrize("gamma2", [1, 1_000])
def test_sets_hold_everyone_once_and_are_as_many_as_asked_for(gamma2: int) -> None:
    asked, messages = scene(300)
    sample = Sample(SPACES[0], messages)
    found = find_footprints(asked, sample)
    for n_sets in (1, 40, 10_000):
        splitter = Splitter(found, sample)
        sets = splitter.split(n_sets, gamma2)
        assert len(sets) >= min(n_sets, 300)
        assert sorted(np.concatenate([splitter.order.of(one.set) for one in sets]).tolist()) == list(range(300))
        assert [one.minus_cost for one in sets] == sorted(one.minus_cost for one in sets)
        for one in sets:
            own = found.boxes[splitter.order.of(one.set)]
            assert one.box == (*own[:, :2].min(0), *own[:, 2:].max(0))
            assert len(set(found.levels[splitter.order.of(one.set)])) == 1
    order, parts = space_sets(found, sample, 40)
    assert 40 <= len(parts) <= 43
    assert sorted(np.concatenate([order.of(one.set) for one in parts]).tolist()) == list(range(300))


def test_quarters_are_cells_of_a_quadtree() -> None:
    asked, messages = scene(300)
    sample = Sample(SPACES[0], messages)
    found = find_footprints(asked, sample)
    order = Order(found, sample, by_size=False)
    (whole,) = order.sets
    for quarter in order.quarters(whole):
        middles = found.boxes[order.of(quarter)]
        finite = np.isfinite(middles).all(axis=1)
        sides = (middles[finite, :2] + middles[finite, 2:]) / 2 >= 4.0
        assert (sides == sides[0]).all()


def test_costs_by_words_and_by_themselves_are_balanced() -> None:
    asked, messages = scene(500)
    sample = Sample(SPACES[0], messages)
    found = find_footprints(asked, sample)
    for method, costs in (("keyword", keyword_costs(found, sample)), ("dkm", own_costs(found, sample, 125))):
        shards, loads, _ = split(method, found, sample, 4, SplitSettings())
        assert np.allclose(np.bincount(shards, costs, 4), loads)
        assert np.ptp(loads) <= costs.max()
