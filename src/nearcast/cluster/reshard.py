"""Another number of shards: the shards of a checkpoint go in, and as many as are asked for come out, exactly as far on.

All shards of a recorded step stand before the same turn. Each is restored, and its subscriptions are filed; what is
left of the first is an empty shard with all live messages, the same in every one. New shards are copies of it that
adopt their part. They begin an **era** of their own: a folder with their snapshots, the directory, and the totals so
far, and a new checkpoint for Spark. It counts from the moment `run.json` names it. Batches are not touched: those that
the old shards had not processed are routed again. What old shards wrote of these is dropped before the era's first
turn; one that is still running somewhere looks at `run.json` before it writes.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa

import nearcast as nc
from nearcast.broker import snapshot
from nearcast.cluster.directory import Directory, Entries
from nearcast.cluster.log import Log, kept_state
from nearcast.cluster.progress import read_totals
from nearcast.cluster.shard import Shard
from nearcast.cluster.store import Store, write_json, write_whole
from nearcast.cluster.turn import Settings, State, play, restore, with_snapshot
from nearcast.cluster.turn_files import TAKE, read_turn
from nearcast.columns.arena import Floats, Ints


def reshard(checkpoint: Path, settings: Settings, n_shards: int) -> Settings:
    """Make an era with `n_shards` shards of the last step on record; returns its settings, yet to be written down."""
    old, new = Store(checkpoint, settings.era), Store(checkpoint, settings.era + 1)
    after = settings._replace(id=uuid.uuid4().hex, era=settings.era + 1, n_shards=n_shards)
    shutil.rmtree(new.own, ignore_errors=True)
    totals = read_totals(old)
    if not totals.states:  # nothing was ever processed
        return after
    log = Log(old, settings.n_shards, nc.Space(**settings.space), "hash", totals.next_turn, totals.next_batch)
    states = [State(**state) for state in totals.states]
    if log.next_turn > totals.next_turn and read_turn(old, totals.next_turn).kind == TAKE:
        totals.next_turn += 1  # what was given must be taken first
    directory = Directory()
    scratch = new.own / "scratch"
    scratch.mkdir(parents=True)
    ids_type = None
    for index, state in enumerate(states):
        shard = restore(old, settings, index, state)
        for number in range(state.next_turn, totals.next_turn):
            play(old, shard, read_turn(old, number))
        ids_type = shard.subscription_ids
        ids = shard.broker.subscription_ids
        known = log.directory.known(ids)
        takers = dealt(known.costs, n_shards)
        directory.enter(ids, Entries(takers, known.costs, known.ends))
        for taker in range(n_shards):
            snapshot.write(scratch / f"{index}-{taker}", shard.give(ids.filter(pa.array(takers == taker)).to_pylist()))
        if index == 0:
            shard.broker.snapshot(scratch / "empty")
    begin = State(uuid.uuid4().hex, totals.next_turn, totals.next_batch, n_rows=states[0].n_rows)
    totals.states = []
    for taker in range(n_shards):
        shard = Shard(taker, nc.Broker.restore(scratch / "empty"), ids_type)
        for index in range(len(states)):
            shard.broker.adopt(snapshot.read(scratch / f"{index}-{taker}"))
        totals.states.append(with_snapshot(new, shard, begin)._asdict())
    partition = log.partition.empty(n_shards)
    for _, _, held in directory.held():
        partition.charge(held.shards, held.costs)
    partition.level()
    kept = kept_state(directory, log.fitted, partition)
    place = new.directory(totals.next_turn, totals.next_batch)
    write_whole(place, lambda draft: snapshot.write(draft, kept))
    write_json(new.start, totals.record())
    shutil.rmtree(scratch)
    return after


def dealt(costs: Floats, n_shards: int) -> Ints:
    """Shards for subscriptions of these costs: dealt out like cards, the most expensive first, there and back again."""
    at = np.arange(costs.size)
    lap, seat = at // n_shards, at % n_shards
    shards = np.zeros(costs.size, dtype=np.int32)
    shards[np.argsort(-costs, kind="stable")] = np.where(lap % 2 == 0, seat, n_shards - 1 - seat)
    return shards
