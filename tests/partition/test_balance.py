"""Shards that had more to do than the mean give to those that had less."""

from __future__ import annotations

import numpy as np

from nearcast.partition.balance import Balance, imbalance, moves_for


def test_work_becomes_even_and_few_have_to_move() -> None:
    rng = np.random.default_rng(5)
    costs = rng.pareto(1.5, 3_000) + 0.01
    shards = np.where(np.arange(3_000) < 2_000, 0, rng.integers(1, 3, 3_000)).astype(np.int32)
    work = np.bincount(shards, costs, 3)
    moves = moves_for(work, shards, costs)
    assert set(shards[moves.rows]) == {0}
    assert set(moves.takers) == {1, 2}
    shards[moves.rows] = moves.takers
    assert imbalance(np.bincount(shards, costs, 3)) < 0.02
    assert moves.rows.size < 300
    assert moves_for(np.ones(3), shards, costs).rows.size == 0
    assert moves_for(np.array([1.0, 0.0]), np.zeros(1, np.int32), np.ones(1)).rows.size == 0  # too large to move
    assert moves_for(np.array([1.0, 0.0]), np.zeros(0, np.int32), np.zeros(0)).rows.size == 0


def test_balance_is_judged_by_enough_work_of_the_right_batches() -> None:
    balance = Balance(2, 0.2, 10.0)
    balance.add(0, [12.0, 6.0])
    assert balance.due() is None  # nine seconds in the mean
    balance.add(1, [2.0, 1.0])
    assert (balance.due() == [14.0, 7.0]).all()
    balance.wait(5)
    balance.add(4, [100.0, 0.0])  # before moves took effect
    assert balance.due() is None
    balance.add(5, [11.0, 10.0])
    assert balance.due() is None  # near enough
    balance.add(6, [100.0, 0.0])
    assert balance.due() is not None
    assert imbalance(np.zeros(2)) == imbalance(np.zeros(0)) == 0.0
