"""Keeping balance: how much each shard had to do goes in, and which subscriptions should move where comes out.

Work is the processor time that shards spend on events. Once there is enough of it to judge, the shards that had more
than the mean give subscriptions to those that had less: of their expected costs, the share by which they are above
the mean. Part of a shard's work, taking in messages, stays whoever holds what; so a proposal moves a little less than
would be needed, and the next one the rest. No paper of the five has this: their partitions are fitted to a sample
of messages, and streams change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints

_MOST = 0.5  # share of its subscriptions that a shard gives away at once


class Moves(NamedTuple):
    """Subscriptions that should move."""

    rows: Array  # int64[]: their rows in what was given
    takers: Ints  # int32[]: the shard of each


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
        self._quiet_until = 0  # batch from which on work shows the last moves

    def add(self, batch: int, work: list[float]) -> None:
        """Shards have processed a batch, with this work of each."""
        if batch >= self._quiet_until:
            self._work += work

    def due(self) -> Floats | None:
        """The work of shards, if it is enough to judge and out of balance; counting begins again."""
        if self._work.mean() < self._least_s:
            return None
        work, self._work = self._work, np.zeros(self._work.size)
        return work if imbalance(work) > self._bound else None

    def wait(self, batch: int) -> None:
        """Moves take effect in the batches before this one."""
        self._quiet_until = batch


def imbalance(work: Floats) -> float:
    """(max - min) / mean of what shards had to do; 0 where there was nothing."""
    mean = float(work.mean()) if work.size else 0.0
    return float(np.ptp(work)) / mean if mean > 0.0 else 0.0


def moves_for(work: Floats, shards: Ints, costs: Floats) -> Moves:
    """Have shards above the mean give to those below; nothing if nothing small enough can move.

    Parameters
    ----------
    work
        Of each shard.
    shards, costs
        Of each subscription: where it is, and what it is expected to cost.
    """
    excess = np.maximum(work - work.mean(), 0.0)
    wanted = np.maximum(work.mean() - work, 0.0)
    shares = np.cumsum(wanted / wanted.sum()) if wanted.any() else np.ones(work.size)
    above = np.flatnonzero(excess).tolist()
    chosen = [_chosen(shards, costs, shard, excess[shard] / work[shard]) for shard in above]
    rows = np.concatenate([np.zeros(0, np.int64), *chosen])
    takers = np.concatenate([np.zeros(0, np.int32), *(_spread(costs[part], shares) for part in chosen)])
    return Moves(rows, takers)


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
