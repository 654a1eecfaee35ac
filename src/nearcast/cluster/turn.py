"""One shard takes turns in a micro-batch: the committed state and the turns go in, the next state and a report out.

A shard lives in the memory of a Python worker only as a cache. The truth is the state, which Spark commits: a token of
the last turn, the name of a snapshot, and which turns came since. A worker that holds a shard with that token goes on
with it; any other restores the snapshot and replays those turns, which gives the same shard, because engines are
deterministic. A shard is taken out of the cache while it changes: a turn that fails half-way is never gone on from.
`log` tells what turns there are, and why subscriptions can change shards between two of them.

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
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

import nearcast as nc
from nearcast.broker import snapshot
from nearcast.cluster.outcome_files import updates_file, write_rejects
from nearcast.cluster.shard import Keep, Outcome, Shard
from nearcast.cluster.store import Store, read_json, read_table, write_whole
from nearcast.cluster.turn_files import BATCH, GIVE, Turn, read_route, read_turn

_REPLAY_S = 10.0  # processor seconds of turns after which a snapshot is due, so that a restart replays no more
_CACHE: dict[tuple[str, int], tuple[str, Shard]] = {}  # (run, shard) -> token of its last turn, and the shard itself


class State(NamedTuple):
    """What Spark keeps for a shard."""

    token: str = ""  # of the last turn
    next_turn: int = 0  # the first turn that has not been taken
    next_batch: int = 0  # the first batch that has not been processed
    snapshot: str | None = None  # name of the snapshot's file; None: start from an empty broker
    first_turn: int = 0  # the first turn that the snapshot does not hold
    first_batch: int = 0
    subscription_ids: str | None = None  # the type of their ids, as of the snapshot
    work: float = 0.0  # processor seconds that the turns since then took
    n_rows: int = 0  # of all batches so far


class Settings(NamedTuple):
    """What every shard of an era agrees on."""

    id: str  # of the run in this era
    era: int
    out: str
    n_shards: int
    space: dict[str, Any]
    window: dict[str, Any] | None
    has_weights: bool
    updates_format: str  # "parquet" or "jsonl"
    snapshot_every: int  # turns


class Report(NamedTuple):
    """What turns did in one shard."""

    counts: dict[str, int]
    reasons: dict[str, int]  # why rows were rejected
    subscriptions: dict[str, int]  # live ones, by kind
    clock: int | None
    state: dict[str, Any]  # the state after them
    work: float  # processor seconds spent on events
    seconds: float  # from start to end
    waiting: int  # rows that are ready and come later


def take_turns(checkpoint: str, run: str, index: int, state: str | None, turns: list[Turn]) -> tuple[str, Report]:
    """Take turns in shard `index`.

    Parameters
    ----------
    checkpoint
        The run's folder.
    run
        The run's id: a worker may outlive a checkpoint.
    index
        Which shard.
    state
        The state that the last committed turns returned, as JSON; None at the very first.
    turns
        What to do, in order.

    Returns
    -------
    tuple
        The new state, as JSON, and a report.
    """
    began = time.perf_counter()
    settings = _settings(checkpoint, run)
    store = Store(Path(checkpoint), settings.era)
    before = State(**json.loads(state)) if state else first_state(store, index)
    expected = before.next_turn
    assert expected == turns[0].number, f"shard {index} is at turn {expected}, not at {turns[0].number}"
    held = _CACHE.pop((run, index), None)
    hit = held is not None and held[0] == before.token
    shard = held[1] if held is not None and hit else restore(store, settings, index, before)
    counts: Counter[str] = Counter(hits=int(hit), restores=int(not hit and before.next_turn > 0))
    reasons: Counter[str] = Counter()
    next_batch, n_rows = before.next_batch, before.n_rows
    worked = time.process_time()
    out = Path(settings.out)
    for turn in turns:
        if turn.kind == BATCH:
            next_batch = turn.what + 1
            with updates_file(out, turn.what, index, settings.updates_format) as updates:
                outcome = play(store, shard, turn, updates.add)
                _settings(checkpoint, run)  # a stray of an era that is over must not write what the next one writes
            write_rejects(out, outcome, turn.what, index)
        else:
            outcome = play(store, shard, turn, _forget)
        n_rows += outcome.n_rows
        counts.update(outcome.counts)
        reasons.update(_short(reject["reason"]) for reject in outcome.rejects)
    work = time.process_time() - worked
    counts["rejects"] = reasons.total()
    token, next_turn = uuid.uuid4().hex, turns[-1].number + 1
    after = before._replace(token=token, next_turn=next_turn, next_batch=next_batch, n_rows=n_rows)
    after = after._replace(work=before.work + work)
    if next_turn - before.first_turn >= settings.snapshot_every or after.work >= _REPLAY_S:
        after = with_snapshot(store, shard, after)
        counts["snapshots"] += 1
    _CACHE[run, index] = (after.token, shard)
    stats = shard.broker.stats()
    seconds = time.perf_counter() - began
    waiting = read_json(store.head)["rows"] - n_rows
    report = Report(counts, reasons, stats["subscriptions"], stats["clock"], after._asdict(), work, seconds, waiting)
    return json.dumps(after._asdict()), report


def first_state(store: Store, index: int) -> State:
    """The state of a shard before its first turn in this era."""
    start = read_json(store.start)
    return State(**start["states"][index]) if start else State()


def with_snapshot(store: Store, shard: Shard, state: State) -> State:
    """Write the shard down, as of the state; returns the state that names it."""
    place = store.new_snapshot(shard.index, state.next_turn)
    write_whole(place, shard.broker.snapshot)
    return State(
        state.token, state.next_turn, state.next_batch, place.name, state.next_turn, state.next_batch,
        shard.subscription_ids, n_rows=state.n_rows,
    )  # fmt: skip


def play(store: Store, shard: Shard, turn: Turn, keep: Keep | None = None) -> Outcome:
    """Have a shard take a turn; a replay, which has nobody to `keep` updates, does not write again what it gives."""
    if turn.kind == BATCH:
        return shard.apply(read_table(store.batch(turn.what)), read_route(store, turn.number), keep or _forget)
    order, outcome = read_table(store.order(turn.what)), Outcome()
    if turn.kind == GIVE:
        for taker, ids in _moving(order, "giver", "taker", shard.index):
            rows = shard.give(ids)
            outcome.counts["moved"] += len(ids)
            if keep is not None:
                write_whole(store.handed(turn.what, shard.index, taker), functools.partial(_file, rows))
    else:
        for giver, _ in _moving(order, "taker", "giver", shard.index):
            shard.broker.adopt(snapshot.read(store.handed(turn.what, giver, shard.index)))
    return outcome


def _forget(updates: pa.Table) -> None:
    """Nobody needs these updates."""


def _file(rows: dict[str, Any], place: Path) -> None:
    snapshot.write(place, rows)


def _moving(order: pa.Table, own: str, other: str, index: int) -> Iterator[tuple[int, list[Any]]]:
    """What an order has for one shard: who is on the other side, and the ids, in the order of shards."""
    mine = order.filter(pc.equal(order.column(own), index))
    for shard in sorted(set(mine.column(other).to_pylist())):
        part = mine.filter(pc.equal(mine.column(other), shard))
        yield shard, [*part.column("number").drop_null().to_pylist(), *part.column("name").drop_null().to_pylist()]


def restore(store: Store, settings: Settings, index: int, state: State) -> Shard:
    """The shard as `state` has it: its snapshot, or an empty broker, and every turn since."""
    kept = state.snapshot
    broker = nc.Broker.restore(store.shards / kept) if kept else new_broker(store, settings)
    shard = Shard(index, broker, state.subscription_ids)
    for number in range(state.first_turn, state.next_turn):
        play(store, shard, read_turn(store, number))
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


def _settings(checkpoint: str, run: str) -> Settings:
    settings = Settings(**read_json(Store(Path(checkpoint)).run)["settings"])
    assert settings.id == run, "the checkpoint belongs to another run"
    return settings


def _short(reason: str) -> str:
    """A reason without the value at hand, so that like reasons are counted together."""
    return re.sub(r" at position \d+$", "", reason.split("\n", 1)[0].split(", got ", 1)[0].split(": ", 1)[0])
