"""Says which shard holds a subscription, and by which key Spark groups what goes to a shard.

`fit` splits subscriptions into shards, and the `Partition` that it returns says where those that come later belong.
The method "hash" spreads them by a hash of their id that never changes (Python's own differs between processes). Spark
in turn sends a key to the partition `pmod(murmur3(key), n)`; `shard_key` finds for each shard a key that Spark sends to
the partition of that number, so that every partition has exactly one shard.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.columns.arena import Floats, Ints, owned
from nearcast.errors import InvalidInput
from nearcast.model.analyzer import PLAIN_RULE, Analyzer
from nearcast.partition.costs import keyword_costs, own_costs, own_parts, space_costs
from nearcast.partition.dkm import Splitter, set_costs
from nearcast.partition.footprint import Footprints, Subscriptions, find_footprints
from nearcast.partition.greedy import assign_heaviest_first, assign_in_turn, assign_parts
from nearcast.partition.quadtree_sets import space_sets
from nearcast.partition.sample import Sample
from nearcast.space.space import Space
from nearcast.text.weights import Weights

METHODS = ("dkm", "keyword", "space", "hash")

_MASK = 0xFFFFFFFF
_SPARK_SEED = 42


@dataclass(frozen=True, slots=True)
class SplitSettings:
    """Parameters of the methods, with the names of the paper.

    Parameters
    ----------
    theta
        "space" cuts subscriptions into at least this many sets for each shard.
    gamma1
        "dkm" does likewise.
    gamma2
        Sets of at most this many subscriptions are cut by space or by cost, whichever is better; larger ones by space.
    by_set
        Whether "dkm" deals subscriptions out by what they cost as members of their set, and new ones as members of the
        set that they overlap most, as in the paper; or by what each costs by itself.
    window
        Whether messages expire, and results have to be filled again.

    Paper: [DKMSKS] section 5.1 has θ = 20, γ1 = 100,000 and γ2 = 20.
    Departs: γ1 and γ2 the other way round, since the stated ones ask for more sets than there are subscriptions.
    """

    theta: int = 20
    gamma1: int = 20
    gamma2: int = 100_000
    by_set: bool = False
    window: bool = True

    def __post_init__(self) -> None:
        for name in ("theta", "gamma1", "gamma2"):
            if getattr(self, name) < 1:
                raise InvalidInput(name, getattr(self, name), "must be >= 1")


class Sets(NamedTuple):
    """What new subscriptions are compared with."""

    boxes: Floats  # float64[n, 4]: around all members' boxes
    levels: Ints  # int32[n]: how small these are


class Partition:
    """A partition: where new subscriptions belong, and how much each shard is expected to have to do.

    One that is made of a number of shards alone spreads by id; the others come from `fit`. `loads` are nanoseconds of
    CPU per message by the cost model of the method; of "hash" numbers of subscriptions. `held` are these numbers,
    as if they had been even at first: a shard that got more, and cheaper ones, is not to be spared later ones.
    """

    def __init__(
        self,
        n_shards: int,
        method: str = "hash",
        sample: Sample | None = None,
        n_held: float = 0.0,
        sets: Sets | None = None,
        window: bool = True,
    ) -> None:
        self.method = method
        self.n_shards = n_shards
        self.loads: Floats = np.zeros(n_shards)
        self.held: Floats = np.zeros(n_shards)
        self._sample = sample
        self._n_held = n_held  # subscriptions of a shard when it was fitted, in the mean
        self._sets = sets
        self._window = window

    def assign(self, subscriptions: Subscriptions) -> Ints:
        """The shard of each new subscription, one after another; their costs are added to the loads.

        A row that is malformed costs nothing and gets some shard, which will reject it.

        Paper: [DKMSKS] sections 3.1, 3.2 and 4.4: the shard with the least to do.
        Departs: "dkm" without sets evens out costs and numbers, each by itself. What a new subscription costs until
        its results are full is not in the estimate, and is much the same for all.
        """
        costs = self.costs(subscriptions)
        if self._sample is None:
            shards = owners_of(subscriptions, self.n_shards)
            self.charge(shards, costs)
        elif self.method == "dkm" and self._sets is None:
            sums = np.column_stack([self.loads, self.held])
            shards = assign_parts(np.column_stack([costs, costs > 0.0]), sums)
            self.loads, self.held = owned(sums[:, 0]), owned(sums[:, 1])
        else:
            shards = assign_in_turn(costs, self.loads)
            self.held += self._sums(shards, costs)[1]
        return shards

    def costs(self, subscriptions: Subscriptions) -> Floats:
        """What each subscription is expected to cost its shard; a row that is malformed costs nothing."""
        costs = np.zeros(len(subscriptions))
        if self._sample is None:
            return costs + 1.0
        found = find_footprints(subscriptions, self._sample)
        if self.method == "keyword":
            costs[found.rows] = keyword_costs(found, self._sample)
        elif self.method == "space":
            costs[found.rows] = space_costs(found, self._sample)
        elif self._sets is None:
            costs[found.rows] = own_costs(found, self._sample, self._n_held, self._window)
        else:
            costs[found.rows] = set_costs(found, self._sample, *self._sets)
        return costs

    def charge(self, shards: npt.ArrayLike, costs: npt.ArrayLike) -> None:
        """Subscriptions of these costs are in these shards now."""
        load, held = self._sums(shards, costs)
        self.loads, self.held = self.loads + load, self.held + held

    def release(self, shards: npt.ArrayLike, costs: npt.ArrayLike) -> None:
        """Subscriptions of these costs have left these shards."""
        load, held = self._sums(shards, costs)
        self.loads, self.held = np.maximum(self.loads - load, 0.0), np.maximum(self.held - held, 0.0)

    def level(self) -> None:
        """Take numbers to be even, as of now."""
        self.held[:] = self.held.mean()

    def _sums(self, shards: npt.ArrayLike, costs: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Of each shard the costs, and the number of those that cost something: the others are malformed."""
        whose, of_each = np.asarray(shards, np.int64), np.asarray(costs, np.float64)
        load, held = (np.bincount(whose, values, self.n_shards) for values in (of_each, of_each > 0.0))
        return load.astype(np.float64), held.astype(np.float64)

    def empty(self, n_shards: int) -> Partition:
        """The same for `n_shards` shards that hold nothing yet."""
        return Partition(n_shards, self.method, self._sample, self._n_held, self._sets, self._window)

    def state(self) -> dict[str, Any]:
        """All there is to keep."""
        sets = None if self._sets is None else self._sets._asdict()
        own = {"method": self.method, "loads": self.loads, "held": self.held, "n_held": self._n_held, "sets": sets}
        return {**own, "window": self._window, "sample": self._sample and self._sample.state()}

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> Self:
        """The partition of a state."""
        sets = state["sets"] and Sets(*(owned(state["sets"][name]) for name in Sets._fields))
        sample = state["sample"] and Sample.load(state["sample"])
        made = cls(len(state["loads"]), state["method"], sample, float(state["n_held"]), sets, bool(state["window"]))
        made.loads[:], made.held[:] = state["loads"], state["held"]
        return made


def fit(
    method: str,
    subscriptions: Subscriptions,
    sample: pa.Table | None,
    n_shards: int,
    space: Space,
    *,
    weights: Weights | None = None,
    analyzer: Analyzer = PLAIN_RULE,
    settings: SplitSettings | None = None,
    live: float | None = None,
) -> tuple[Partition, Ints]:
    """Split subscriptions into shards; returns the partition and the shard of each.

    Parameters
    ----------
    method
        ``"dkm"``, ``"keyword"``, ``"space"`` or ``"hash"``.
    subscriptions
        In the columnar form, or a list of their JSON forms. A row that is malformed gets some shard, which will
        reject it.
    sample
        Messages like those to come, in the columnar form; of many, `SAMPLE_ROWS` are looked at. None if there are none.
    space, weights, analyzer
        Those of the broker.
    live
        How many messages its window holds, if there is one; by default as many as the sample.
    """
    if method not in METHODS:
        raise InvalidInput("method", method, f"must be one of {', '.join(METHODS)}")
    if n_shards < 1:
        raise InvalidInput("n_shards", n_shards, "must be >= 1")
    if method == "hash":
        partition = Partition(n_shards)
        return partition, partition.assign(subscriptions)
    looked_at = Sample(space, sample, weights, live, analyzer)
    found = find_footprints(subscriptions, looked_at)
    settings = settings or SplitSettings()
    held, loads, sets = split(method, found, looked_at, n_shards, settings)
    shards = np.zeros(len(subscriptions), np.int32)
    shards[found.rows] = held
    partition = Partition(n_shards, method, looked_at, found.rows.size / n_shards, sets, settings.window)
    partition.charge(held, np.ones(held.size))
    partition.level()
    partition.loads = loads
    return partition, shards


def split(
    method: str, found: Footprints, sample: Sample, n_shards: int, settings: SplitSettings
) -> tuple[Ints, Floats, Sets | None]:
    """The shard of each row of `found`, the load of each shard, and the sets that new ones are compared with."""
    loads = np.zeros(n_shards)
    if method == "keyword":
        return assign_heaviest_first(keyword_costs(found, sample), loads), loads, None
    shards = np.zeros(found.rows.size, np.int32)
    if method == "space":
        order, sets = space_sets(found, sample, settings.theta * n_shards)
        takers = assign_heaviest_first(np.array([-one.minus_cost for one in sets]), loads)
        for one, taker in zip(sets, takers, strict=True):
            shards[order.of(one.set)] = taker
        return shards, loads, None
    splitter = Splitter(found, sample)
    sets = splitter.split(settings.gamma1 * n_shards, settings.gamma2)
    if not settings.by_set:
        parts = own_parts(found, sample, found.rows.size / n_shards, settings.window)
        return *splitter.assign(sets, n_shards, parts), None
    boxes = np.array([one.box for one in sets], np.float64).reshape(-1, 4)
    firsts = splitter.order.members[[one.set.first for one in sets]]
    return *splitter.assign(sets, n_shards, None), Sets(boxes, found.levels[firsts])


def owners_of(subscriptions: Subscriptions, n_shards: int) -> Ints:
    """The shard of each subscription by its id alone; a missing id is anyone's."""
    ids: list[Any]
    if isinstance(subscriptions, list):
        ids = [row.get("id") for row in subscriptions]
    else:
        ids = subscriptions.column("id").to_pylist()
    return np.array([0 if id_ is None else owner_of(id_, n_shards) for id_ in ids], np.int32)


def place_of(subscription_id: str | int) -> int:
    """A number from 0 to 2**32 - 1 that depends on the id and its type alone."""
    kind = "#" if isinstance(subscription_id, int) else "$"
    return zlib.crc32(f"{kind}{subscription_id}".encode("utf-8", "surrogatepass"))


def owner_of(subscription_id: str | int, n_shards: int) -> int:
    """The shard that holds this subscription."""
    return place_of(subscription_id) % n_shards


def spark_partition(key: int, n_partitions: int) -> int:
    """The partition to which Spark's shuffle sends a 32-bit integer key."""
    hashed = _murmur3(key)
    signed = hashed - (1 << 32) if hashed >= 1 << 31 else hashed
    return signed % n_partitions


def shard_key(shard: int, n_shards: int) -> int:
    """The smallest key, from 0 on, that Spark sends to the partition numbered `shard`."""
    key = 0
    while spark_partition(key, n_shards) != shard:
        key += 1
    return key


def _murmur3(value: int) -> int:
    """Murmur3 (x86, 32 bit) of one integer, with Spark's seed."""
    k = (value & _MASK) * 0xCC9E2D51 & _MASK
    k = _rotate(k, 15) * 0x1B873593 & _MASK
    h = (_rotate(_SPARK_SEED ^ k, 13) * 5 + 0xE6546B64) & _MASK
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    return h ^ h >> 16


def _rotate(value: int, by: int) -> int:
    return (value << by | value >> (32 - by)) & _MASK
