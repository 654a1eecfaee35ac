"""Shards in one process: the rival's split, the spread of loads, and the constants that touches are explained by."""

from __future__ import annotations

import numpy as np
import pytest
from partition.test_costs import SPACES, columnar, town

from nearcast.cli.bench import part

ps2stream, sharded, touches = map(part, ("rivals.ps2stream", "cases.sharded", "touches"))


def test_the_rival_gives_every_part_to_one_shard() -> None:
    messages, asked = town(SPACES[0], 60, 200, 8)
    partition, shards = ps2stream.fit(columnar(asked), columnar(messages), 4, SPACES[0])
    assert set(shards.tolist()) == {0, 1, 2, 3}
    assert partition.loads.tolist() == np.bincount(shards, minlength=4).tolist()
    fewest = int(partition.loads.argmin())
    assert partition.assign(columnar(asked[:1])).tolist() == [fewest]


def test_spread_is_of_the_mean() -> None:
    assert sharded.spread(np.array([1.0, 2.0, 3.0])) == 1.0
    assert sharded.spread(np.zeros(3)) == 0.0


@pytest.mark.parametrize("right", [(7.0, 3.0), (0.0, 5.0), (4.0, 0.0)])
def test_times_are_explained_by_constants_that_are_not_negative(right: tuple[float, float]) -> None:
    looks, checks = np.array([4.0, 9.0, 1.0, 3.0]), np.array([1.0, 2.0, 8.0, 5.0])
    assert touches.explain(looks, checks, looks * right[0] + checks * right[1]) == pytest.approx(right, abs=1e-9)
    look, check = touches.explain(looks, checks, np.maximum(looks * 6 - checks, 0.5))
    assert look >= 0
    assert check >= 0
