"""One shard's turn in a micro-batch: the committed state and a range of batches go in, the next state and a report out.

A shard lives in the memory of a Python worker only as a cache. The truth is the state, which Spark commits: a token of
the last turn, the name of a snapshot, and which batches came since. A worker that holds a shard with that token goes on
with it; any other restores the snapshot and replays those batches, which gives the same shard, because engines are
deterministic. A shard is taken out of the cache while it changes: a turn that fails half-way is never gone on from.

Exactly once: the turn itself writes its updates and rejects, each batch to a file named by batch and shard. A turn that
is repeated, after a lost worker or a killed driver, starts from the same committed state over the same batches, so it
replaces each file by one with the same rows, in one rename. Anyone who reads the folder sees every update once, at any
moment, and need not know about Spark. (Spark's own file sink would leave the files of failed attempts beside the rest,
for plain readers to trip over.)
"""

from __future__ import annotations

import functools
import json
import re
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

import nearcast as nc
from nearcast.broker import snapshot
from nearcast.cluster.shard import Outcome, Shard, numbered
from nearcast.cluster.store import Store, read_json, read_table, write_whole

_CACHE: dict[tuple[str, int], tuple[str, Shard]] = {}  # (run, shard) -> token of its last turn, and the shard itself


class State(NamedTuple):
    """What Spark keeps for a shard."""

    token: str  # of the last turn
    next_batch: int  # the first batch that has not been taken
    snapshot: str | None = None  # name of the snapshot's file; None: start from an empty broker
    first_batch: int = 0  # the first batch that the snapshot does not hold
    subscription_ids: str | None = None  # the type of their ids, as of the snapshot


class Settings(NamedTuple):
    """What every shard of a run agrees on; fixed when the checkpoint is made."""

    id: str  # of the run
    out: str
    n_shards: int
    space: dict[str, Any]
    window: dict[str, Any] | None
    has_weights: bool
    updates_format: str  # "parquet" or "jsonl"
    snapshot_every: int  # batches


def take_turn(checkpoint: str, run: str, index: int, state: str | None, first: int, stop: int) -> tuple[str, str]:
    """Process batches `first` to `stop - 1` in shard `index`.

    Parameters
    ----------
    checkpoint
        The run's folder.
    run
        The run's id: a worker may outlive a checkpoint.
    index
        Which shard.
    state
        The state that the last committed turn returned; None at the very first.
    first, stop
        The batches to process.

    Returns
    -------
    tuple of str
        The new state and a report, both JSON.
    """
    began = time.perf_counter()
    store = Store(Path(checkpoint))
    settings = _settings(checkpoint, run)
    before = State(**json.loads(state)) if state else State("", 0)
    assert before.next_batch == first, f"shard {index} is at batch {before.next_batch}, not at {first}"
    held = _CACHE.pop((run, index), None)
    hit = held is not None and held[0] == before.token
    shard = held[1] if held is not None and hit else restore(store, settings, index, before)
    counts: Counter[str] = Counter(hits=int(hit), restores=int(not hit and before.next_batch > 0))
    reasons: Counter[str] = Counter()
    for number in range(first, stop):
        outcome = shard.apply(read_table(store.batch(number)))
        write_outcome(Path(settings.out), outcome, number, index, settings.updates_format)
        counts.update(outcome.counts)
        reasons.update(_short(reject["reason"]) for reject in outcome.rejects)
    counts["rejects"] = reasons.total()
    after = before._replace(token=uuid.uuid4().hex, next_batch=stop)
    if stop - before.first_batch >= settings.snapshot_every:
        place = store.new_snapshot(index, stop)
        write_whole(place, shard.broker.snapshot)
        after = State(after.token, stop, place.name, stop, shard.subscription_ids)
        counts["snapshots"] += 1
    _CACHE[run, index] = (after.token, shard)
    report = {
        "counts": counts,
        "reasons": reasons,
        "subscriptions": shard.broker.stats()["subscriptions"],
        "snapshot": after.snapshot,
        "first_batch": after.first_batch,
        "next_batch": after.next_batch,
        "seconds": time.perf_counter() - began,
    }
    return json.dumps(after._asdict()), json.dumps(report)


def restore(store: Store, settings: Settings, index: int, state: State) -> Shard:
    """The shard as `state` has it: its snapshot, or an empty broker, and every batch since."""
    kept = state.snapshot
    broker = nc.Broker.restore(store.shards / kept) if kept else new_broker(store, settings)
    shard = Shard(index, settings.n_shards, broker, state.subscription_ids)
    for number in range(state.first_batch, state.next_batch):
        shard.apply(read_table(store.batch(number)))
    return shard


def new_broker(store: Store, settings: Settings) -> nc.Broker:
    """An empty broker as the run's settings have it."""
    window = nc.Window(**settings.window) if settings.window else None
    weights = load_weights(store.weights) if settings.has_weights else None
    return nc.Broker(nc.Space(**settings.space), window=window, weights=weights)


def load_weights(place: Path) -> nc.Weights:
    """The weights that `save_weights` wrote."""
    return nc.Weights().load(snapshot.read(place))


def save_weights(place: Path, weights: nc.Weights) -> None:
    """Write weights for all shards to read."""
    place.parent.mkdir(parents=True, exist_ok=True)
    snapshot.write(place, weights.state())


def write_outcome(out: Path, outcome: Outcome, batch: int, shard: int, updates_format: str) -> None:
    """Write the updates and rejects of one batch and shard, each to a file of its own, if there are any."""
    name = f"part-{batch:08d}-{shard:03d}"
    table = numbered(outcome, batch)
    if table is not None:
        write = pq.write_table if updates_format == "parquet" else _write_lines
        write_whole(out / "updates" / f"{name}.{updates_format}", lambda draft: write(table, str(draft)))
    if outcome.rejects:
        rejects = pa.Table.from_pylist(outcome.rejects)
        write_whole(out / "rejects" / f"{name}.jsonl", lambda draft: _write_lines(rejects, str(draft)))


def _write_lines(table: pa.Table, place: str) -> None:
    with open(place, "w", encoding="utf-8") as file:
        for row in table.to_pylist():
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


@functools.lru_cache(maxsize=4)
def _settings(checkpoint: str, run: str) -> Settings:
    settings = Settings(**read_json(Store(Path(checkpoint)).run)["settings"])
    assert settings.id == run, "the checkpoint belongs to another run"
    return settings


def _short(reason: str) -> str:
    """A reason without the value at hand, so that like reasons are counted together."""
    return re.sub(r" at position \d+$", "", reason.split("\n", 1)[0].split(", got ", 1)[0].split(": ", 1)[0])
