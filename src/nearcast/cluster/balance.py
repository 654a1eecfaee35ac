"""Keeping balance: how much each shard had to do goes in, and orders to move subscriptions come out.

Work is the processor time that shards spend on events. Once there is enough of it to judge, the shards that had more
than the mean give subscriptions to those that had less: of their expected costs, the share by which they are above
the mean. Part of a shard's work, taking in messages, stays whoever holds what; so an order moves a little less than
would be needed, and the next one the rest. No paper of the five has this: their partitions are fitted to a sample
of messages, and streams change.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from nearcast.cluster.directory import Directory, order_of
from nearcast.cluster.progress import imbalance
from nearcast.columns.arena import Array, Floats, Ints

_MOST = 0.5  # share of its subscriptions that a shard gives away at once


class Balance:
    """Watches the work of shards.

    Parameters
    ----------
    n_shards
        How many there are.
    bound
        The imbalance, (max - min) / mean, above which subscriptions move.
    least_s
        Processor seconds per shard, in the mean, before the imbalance is judged.
    """

    def __init__(self, n_shards: int, bound: float, least_s: float) -> None:
        self._bound = bound
        self._least_s = least_s
        self._work = np.zeros(n_shards)
        self._quiet_until = 0  # turn from which on work shows the last order

    def add(self, next_turn: int, work: list[float]) -> None:
        """Shards have come to a turn, with so much work on the way."""
        if next_turn > self._quiet_until:
            self._work += work

    def order(self, directory: Directory) -> pa.Table | None:
        """What to move now, if anything."""
        if self._work.mean() < self._least_s:
            return None
        work, self._work = self._work, np.zeros(self._work.size)
        if imbalance(work.tolist()) <= self._bound:
            return None
        return order_for(work, directory)

    def wait(self, turn: int) -> None:
        """An order is carried out in the turns before this one."""
        self._quiet_until = turn


def order_for(work: Floats, directory: Directory) -> pa.Table | None:
    """Have shards above the mean give to those below; None if nothing small enough can move."""
    excess = np.maximum(work - work.mean(), 0.0)
    wanted = np.maximum(work.mean() - work, 0.0)
    shares = np.cumsum(wanted / wanted.sum()) if wanted.any() else np.ones(work.size)
    ids, givers, takers = {}, {}, {}
    for name, slots, held in directory.held():
        above = np.flatnonzero(excess).tolist()
        chosen = [_chosen(held.shards, held.costs, shard, excess[shard] / work[shard]) for shard in above]
        rows = np.concatenate([np.zeros(0, np.int64), *chosen])
        if rows.size:
            ids[name] = directory.ids(name, slots[rows])
            givers[name] = held.shards[rows]
            takers[name] = np.concatenate([_spread(held.costs[part], shares) for part in chosen])
    return order_of(ids, givers, takers) if ids else None


def _chosen(shards: Ints, costs: Floats, shard: int, share: float) -> Array:
    """Rows of a shard that make up this share of its costs, the most expensive first, so that few have to move."""
    rows = np.flatnonzero(shards == shard)
    target = min(share, _MOST) * costs[rows].sum()
    rows = rows[costs[rows] <= target]
    rows = rows[np.argsort(-costs[rows], kind="stable")]
    chosen: Array = rows[np.cumsum(costs[rows]) <= target]
    return chosen


def _spread(costs: Floats, shares: Floats) -> Ints:
    """The takers of rows: each gets its share of their costs; `shares` add up."""
    middle = np.cumsum(costs) - costs / 2
    found: Ints = np.searchsorted(shares, middle / max(costs.sum(), 1e-300), side="left").astype(np.int32)
    return np.minimum(found, shares.size - 1).astype(np.int32)
