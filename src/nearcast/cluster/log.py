"""The log of turns: batches that are ready, and orders to move subscriptions, become turns that every shard takes.

A **turn** is one step of all shards. In a turn of the kind ``"batch"`` they process a batch; a turn ``"give"`` has
some of them file subscriptions and drop them; in the turn ``"take"`` that always follows, others pick these up. What a
turn is stands in its own file, and a turn is real from the moment this file has its name: only then does Spark
find it, and only then may its route or order, which were written before it, be read.

Where a subscription event goes is decided here, when its turn is written, and is written down as the turn's **route**:
shards follow routes, and so does a replay, so it does not matter how the decision was made. Only a few turns are
written ahead of those that were taken. Everything that is still to come then follows an order to move.

Moving is exact for these reasons. Spark takes one turn at a time in all shards, so that what is handed over is filed
and committed before anyone picks it up. No event lies between giving and taking, so the same messages are live on
both sides and nobody misses one. The giver answers all batches before, the taker all after, so that of one batch only
one of them speaks for a subscription. And every turn of a shard is a pure function of its state, of files that
do not change, and of nothing else: a turn that is killed at any point is simply taken again. A giver then files the
same rows under the same name, and a taker finds them until `Store.sweep` sees that no committed state is that old.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from nearcast.broker import snapshot
from nearcast.cluster.directory import Directory, Entries, ends_of
from nearcast.cluster.schema import MESSAGE_COLUMNS, PUBLISH, ROUTE, SUBSCRIBE
from nearcast.cluster.specs import subscriptions_of
from nearcast.cluster.store import Store, read_table, write_table, write_whole
from nearcast.cluster.turn_files import BATCH, GIVE, TAKE, Turn, read_route, read_turn
from nearcast.columns.arena import Array, Floats, Ints, State
from nearcast.partition.partition import Partition, SplitSettings, fit
from nearcast.space.space import Space
from nearcast.text.weights import Weights

_AHEAD = 2  # turns that are written before those in front of them were taken, so that Spark need not wait
_KEEP_EVERY = 100  # turns from one directory on disk to the next
_SAMPLE = 10_000  # messages that a partition is fitted to


class Log:
    """Writes turns; one per run, in the driver.

    Parameters
    ----------
    store
        Where they are written.
    n_shards, space, method, weights, splitting
        What a partition is fitted with.
    next_turn, next_batch
        How far shards have come, for all that is known.
    """

    def __init__(
        self,
        store: Store,
        n_shards: int,
        space: Space,
        method: str,
        next_turn: int,
        next_batch: int,
        weights: Weights | None = None,
        splitting: SplitSettings | None = None,
    ) -> None:
        self._store = store
        self._space = space
        self._method = method
        self._weights = weights
        self._splitting = splitting
        self._lock = threading.Lock()
        self.directory = Directory()
        self.partition = Partition(n_shards)
        self.fitted = False  # to some input; until then ids are hashed
        self._looked_at = 0  # batches that were looked through for something to fit a partition to
        self.next_turn, self.next_batch = next_turn, next_batch
        self._recover()

    def _recover(self) -> None:
        """Read the newest directory, and follow the turns since."""
        kept = self._store.last_directory()
        if kept is None:
            self._keep()
            return
        state = snapshot.read(self._store.directory(*kept))
        self.directory.load(state["directory"])
        self.fitted, self.partition = state["fitted"], Partition.load(state["partition"])
        self._kept_turn = kept[0]
        self.next_turn, self.next_batch = max(self.next_turn, kept[0]), max(self.next_batch, kept[1])
        turns = [read_turn(self._store, number) for number in self._store.turn_numbers() if number >= kept[0]]
        for turn in turns:
            self._follow(turn)
        if turns:
            self.next_turn = turns[-1].number + 1
            self.next_batch = max([self.next_batch, *(turn.what + 1 for turn in turns if turn.kind == BATCH)])
            if turns[-1].kind == GIVE:
                self._write(TAKE, turns[-1].number)

    def _follow(self, turn: Turn) -> None:
        """Bring the directory up to a turn that was written before."""
        if turn.kind == GIVE:
            self._obey(read_table(self._store.order(turn.number)))
        elif turn.kind == BATCH:
            route = read_route(self._store, turn.number)
            if route is not None:
                self._route(read_table(self._store.batch(turn.what)), route)

    def extend(self, n_batches: int, n_taken: int) -> None:
        """Write turns for the batches that are ready, a few ahead of those that were taken."""
        with self._lock:
            self._plan(n_batches)
            while self.next_batch < n_batches and self.next_turn < n_taken + _AHEAD:
                batch = read_table(self._store.batch(self.next_batch))
                route = self._route(batch)
                if route is not None:
                    write_table(self._store.route(self.next_turn), pa.table([pa.array(route)], schema=ROUTE))
                self._write(BATCH, self.next_batch)
                self.next_batch += 1
            if self.next_turn - self._kept_turn >= _KEEP_EVERY:
                self._keep()

    def move(self, decide: Callable[[Directory], pa.Table | None]) -> int | None:
        """Have subscriptions change shards in the next two turns; returns the turn after them.

        `decide` makes the order of the directory as it is then; None if nothing is to move.
        """
        with self._lock:
            order = decide(self.directory)
            if order is None:
                return None
            write_table(self._store.order(self.next_turn), order)
            self._write(GIVE, self.next_turn)
            self._obey(order)
            self._write(TAKE, self.next_turn - 1)
            return self.next_turn

    def forget_ended(self, clock: int) -> None:
        """Subscriptions that end by that time have ended in all shards."""
        with self._lock:
            ended = self.directory.forget_ended(clock)
            self.partition.release(ended.shards, ended.costs)

    def _write(self, kind: str, what: int) -> None:
        turn = Turn(self.next_turn, kind, what)

        def write(draft: Path) -> None:
            draft.write_text(",".join(map(str, turn)))

        write_whole(self._store.turn(turn.number), write)
        self.next_turn += 1

    def _obey(self, order: pa.Table) -> None:
        before, takers = self.directory.follow(order)
        self.partition.release(before.shards, before.costs)
        self.partition.charge(takers, before.costs)

    def _route(self, batch: pa.Table, known: Array | None = None) -> Ints | None:
        """Where the events of a batch go; `known` if it was decided before."""

        def choose(rows: Array) -> tuple[Ints, Floats]:
            subscriptions = subscriptions_of(batch, rows)
            costs, shards = self.partition.costs(subscriptions), self.partition.assign(subscriptions)
            if known is not None:
                self.partition.release(shards, costs)
                shards = known[rows].astype(np.int32)
                self.partition.charge(shards, costs)
            return shards, costs

        shards, ended = self.directory.route(batch, choose, known)
        self.partition.release(ended.shards, ended.costs)
        return shards

    def _plan(self, n_batches: int) -> None:
        """Fit the partition to the first input that has subscriptions and messages; until then ids are hashed."""
        first = max(self.next_batch, self._looked_at)
        if self.fitted or self._method == "hash" or first >= n_batches:
            return
        self._looked_at = n_batches
        found = [(batch, batch.column("event").to_numpy()) for batch in self._batches(first, n_batches)]
        sample = _sample(found)
        if not sample.num_rows or not any((events == SUBSCRIBE).any() for _, events in found):
            return
        rows = [np.flatnonzero(events == SUBSCRIBE) for _, events in found]
        tables = [subscriptions_of(batch, own) for (batch, _), own in zip(found, rows, strict=True)]
        joined = pa.concat_tables(_same_ids(tables))
        n_shards = self.partition.n_shards
        self.partition, shards = fit(
            self._method, joined, sample, n_shards, self._space, weights=self._weights, settings=self._splitting
        )
        costs = self.partition.costs(joined)
        starts = np.cumsum([0, *map(len, rows)])
        for (batch, _), own, lo, hi in zip(found, rows, starts[:-1], starts[1:], strict=True):
            entries = Entries(np.asarray(shards[lo:hi], np.int32), costs[lo:hi], ends_of(batch, own))
            self.directory.add(batch, own, entries)
        self.partition = self.partition.empty(n_shards)
        for _, _, held in self.directory.held():
            self.partition.charge(held.shards, held.costs)
        self.partition.level()
        self.fitted = True
        self._keep()

    def _batches(self, first: int, stop: int) -> list[pa.Table]:
        return [read_table(self._store.batch(number)) for number in range(first, stop)]

    def _keep(self) -> None:
        """Write the directory as it is now; a restart follows only the turns since."""
        state = kept_state(self.directory, self.fitted, self.partition)
        place = self._store.directory(self.next_turn, self.next_batch)
        write_whole(place, lambda draft: snapshot.write(draft, state))
        self._kept_turn = self.next_turn


def kept_state(directory: Directory, fitted: bool, partition: Partition) -> State:
    """What is written of a directory."""
    return {"directory": directory.state(), "fitted": fitted, "partition": partition.state()}


def _sample(batches: list[tuple[pa.Table, Array]]) -> pa.Table:
    """Some of the messages, spread evenly."""
    rows = [np.flatnonzero(events == PUBLISH) for _, events in batches]
    step = max(1, sum(map(len, rows)) // _SAMPLE)
    parts = []
    for (batch, _), own in zip(batches, rows, strict=True):
        parts.append(batch.select(MESSAGE_COLUMNS).take(pa.array(own[::step])))
    joined = pa.concat_tables(parts)
    return joined.add_column(0, "id", pa.array(np.arange(joined.num_rows)))


def _same_ids(tables: list[pa.Table]) -> list[pa.Table]:
    """The tables with ids of one type."""
    if len({table.schema.field("id").type for table in tables}) == 1:
        return tables
    return [table.set_column(0, "id", table.column("id").cast(pa.string())) for table in tables]
