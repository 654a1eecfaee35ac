"""One step of a shard: its blocks of a batch go in, answers come out, and a state of a few names.

Plain Python, nothing of Spark. A shard is a function of its blocks, so it may be lost at any moment and made again:
from its last snapshot and the blocks since, whose names are its **state**. While it lasts it is held in the memory of
the worker, under the token that its last step gave it. If the state that Spark committed has another token, this
step's work was lost, or was done elsewhere, and what is held is not the truth. It is taken out of the memory while it
changes.

After every step the state is written to the store as a **head**, too. Attempts of one step may each write it: their
heads name different files, but files with the same content. Heads are what other shards can see: from them another
number of shards is made.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import nearcast as nc
from nearcast.errors import SetupError
from nearcast.spark.shards.blocks import Messages, from_bytes, to_bytes
from nearcast.spark.shards.fanout import CONTROLS, MESSAGES, NOTHING, REFUSED_CONTROLS, REFUSED_MESSAGES
from nearcast.spark.shards.places import Places
from nearcast.spark.shards.shard import Shard, check_counts, drained
from nearcast.spark.shards.snapshot_writer import SMALL_BYTES, SnapshotWriter
from nearcast.spark.shards.store import Store
from nearcast.spark.spec import Spec

FORMAT = 2
_HEADS = "heads"  # the folder of states
TAKEN = -1  # the kind of a block that is a copy of subscriptions from another shard
_PLACES = "-places"
_KEPT = 2  # batches for which a shard that is not asked for stays in memory


class Block(NamedTuple):
    """A block in the store."""

    kind: int
    rows: int
    name: str


@dataclass(frozen=True)
class ShardState:
    """Where a shard is: what Spark commits of it."""

    shard: int
    shards: int
    settings: str
    batch: int = -1  # the last one processed
    token: str = ""
    snapshot: str | None = None
    log: list[list[Block]] = field(default_factory=list)  # batches since the snapshot, and what it took before them
    taking: list[str] = field(default_factory=list)  # copies of subscriptions that it takes before the next batch
    format: int = FORMAT

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ShardState:
        """The state that `to_json` wrote.

        Raises
        ------
        SetupError
            It was written by another version, or is damaged.
        """
        try:
            known = json.loads(text)
            if known["format"] == FORMAT:
                log = [[Block(*block) for block in batch] for batch in known.pop("log")]
                return cls(**known, log=log)
        except (ValueError, KeyError, TypeError) as error:
            raise SetupError(
                f"a state of this checkpoint is damaged ({error}). Put the checkpoint and {_HEADS} of the store back "
                "from a copy, or begin with another checkpoint and another store."
            ) from None
        raise SetupError(
            f"this checkpoint was written in format {known['format']}, and this version reads {FORMAT}. Finish with "
            "the version that wrote it, or begin with another checkpoint and another store."
        )


class _Held(NamedTuple):
    """A shard in memory."""

    token: str
    batch: int
    shard: Shard
    writing: SnapshotWriter | None = None  # its next snapshot


HELD: dict[tuple[str, int], _Held] = {}  # by query and shard, in this process


class Step:
    """One batch of one shard.

    Parameters
    ----------
    query, batch, index
        Which step of which shard this is.
    before
        The shard's state after the batch before, None if Spark has none.
    """

    def __init__(self, spec: Spec, query: str, batch: int, index: int, before: ShardState | None) -> None:
        assert spec.store is not None, "a stream must have a store"
        self._spec = spec
        self._store = Store(spec.store)
        self._query, self._batch, self._index = query, batch, index
        self.restored = False
        self._writing: SnapshotWriter | None = None
        self._before = before
        self.state = before
        self.counts: dict[str, int] = {}
        self.subscriptions: dict[str, int] = {}  # by kind, after it

    def run(self, initial: list[Block], blocks: list[Block]) -> Iterator[pa.Table]:
        """Process blocks; when all answers were taken, `state` is the state after it.

        `initial` are those of subscriptions that were there before the stream; only a shard's first step has any.
        """
        shard, state = self._shard()
        shard.begin(self._batch)
        batches = [[Block(TAKEN, 0, name) for name in state.taking], initial, [b for b in blocks if b.kind != NOTHING]]
        batches = [part for part in batches if part]
        fresh = state.batch < 0
        taking: list[str] = []
        for part in batches:
            yield from self._apply(shard, part, fresh and part is batches[0], taking)
        check_counts(shard.counts)
        self.counts = dict(shard.counts)
        self.subscriptions = shard.broker.stats()["subscriptions"]
        token = uuid.uuid4().hex
        log = [*state.log, *batches]
        state = replace(state, batch=self._batch, token=token, log=log, taking=taking)
        state = self._with_snapshot(shard, state)
        self._store.put(head_name(self._query, self._batch, self._index), state.to_json().encode())
        self.state = state
        HELD[self._query, self._index] = _Held(token, self._batch, shard, self._writing)

    def _with_snapshot(self, shard: Shard, state: ShardState) -> ShardState:
        """The state with the snapshot that was finished meanwhile, if one was; begins another when it is time."""
        writing, every = self._writing, self._spec.snapshot_every
        if writing is not None and writing.finished:
            self._writing = None
            return replace(state, snapshot=writing.name, log=state.log[writing.covered :])
        if writing is not None and not writing.failed:
            return state
        self._writing = None
        if len(state.log) <= (self._index + self._batch) % every + every // 2:
            return state
        name = f"{self._query}/snapshots/{self._batch}-{self._index}-{state.token}"
        if sum(shard.broker.stats()["bytes"].values()) > SMALL_BYTES:
            self._put_places(name, shard)
            with contextlib.suppress(OSError):  # there is no room for a second process
                self._writing = SnapshotWriter(self._store, name, shard.broker, len(state.log))
                return state
        self._put_snapshot(name, shard)
        return replace(state, snapshot=name, log=[])

    def _shard(self) -> tuple[Shard, ShardState]:
        """The shard as it was after the batch before: held in memory, restored, or made of another number of shards."""
        held = HELD.pop((self._query, self._index), None)
        if held is not None and held.writing is not None:
            if self._before is not None and held.token == self._before.token:
                self._writing = held.writing
            else:
                held.writing.abandon()
        for key in [key for key, one in HELD.items() if key[0] == self._query and one.batch < self._batch - _KEPT]:
            del HELD[key]
        before = self._before
        latest = self._latest_heads(-1 if before is None else before.batch)
        if latest is not None:
            self.restored = True
            self._writing = None
            return self._resharded(latest)
        if before is None:
            return Shard(self._index, self._spec), ShardState(self._index, self._spec.shards, self._spec.settings)
        self._check_settings(before)
        if before.shards != self._spec.shards or before.shard != self._index:
            self.restored = True
            self._writing = None
            return self._resharded(before.batch)
        if held is not None and held.token == before.token:
            return held.shard, before
        self.restored = True
        return self._restored(before), before

    def _check_settings(self, state: ShardState) -> None:
        if state.settings != self._spec.settings:
            raise SetupError(
                f"this checkpoint was begun with {state.settings}, and not with {self._spec.settings}: start it as it "
                "was begun, or begin with another checkpoint"
            )

    def _latest_heads(self, after: int) -> int | None:
        """The last batch before this one, and after the one given, that shards have processed; None if there is none.

        There is one only if this shard was away: its own state is then too old.
        """
        for batch in range(self._batch - 1, after, -1):
            if self._store.get(head_name(self._query, batch, 0)) is not None:
                return batch
        return None

    def _restored(self, state: ShardState) -> Shard:
        """The shard that a state describes."""
        spec = replace(self._spec, shards=state.shards)
        broker = places = None
        if state.snapshot is not None:
            broker = self._store.get_snapshot(state.snapshot, spec.threads)
            places = self._stored_places(state.snapshot) if spec.placed else None
        shard = Shard(state.shard, spec, broker, places)
        for n, blocks in enumerate(state.log):
            drained(self._apply(shard, blocks, n == 0 and broker is None, None))
        return shard

    def _stored_places(self, snapshot: str) -> pa.Table:
        name = snapshot + _PLACES
        try:
            return from_bytes(self._store.need(name))
        except pa.ArrowException as error:
            raise self._store.damaged(name, str(error).splitlines()[0]) from error

    def _put_snapshot(self, name: str, shard: Shard) -> None:
        self._put_places(name, shard)
        self._store.put_snapshot(name, shard.broker)

    def _put_places(self, name: str, shard: Shard) -> None:
        if self._spec.placed:
            self._store.put(name + _PLACES, to_bytes(shard.places.table()))

    def _resharded(self, batch: int) -> tuple[Shard, ShardState]:
        """This shard, made of all that there were after a batch: the first, less what is not its own, and the rest."""
        first = self._head(batch, 0)
        self._check_settings(first)
        before = self._complete(first)
        shard = Shard(self._index, self._spec, before.broker, before.places.table())
        shard.broker.unsubscribe_many(self._ids(shard.broker, shard.places, mine=False))
        for index in range(1, first.shards):
            other = self._complete(self._head(batch, index)).broker
            ids = self._ids(other, shard.places, mine=True)
            if len(ids):
                shard.broker.adopt(other.export_subscriptions(ids))
        name = f"{self._query}/snapshots/{self._batch}-{self._index}-{uuid.uuid4().hex}"
        self._put_snapshot(name, shard)
        return shard, ShardState(self._index, self._spec.shards, self._spec.settings, batch, snapshot=name)

    def _complete(self, state: ShardState) -> Shard:
        """The shard that a state describes, with what it was about to take."""
        shard = self._restored(state)
        drained(self._apply(shard, [Block(TAKEN, 0, name) for name in state.taking], False, None))
        return shard

    def _ids(self, broker: nc.Broker, places: Places, mine: bool) -> pa.Array:
        ids = broker.subscription_ids
        return ids.filter(pa.array((places.of(ids) == self._index) == mine))

    def _head(self, batch: int, index: int) -> ShardState:
        return ShardState.from_json(self._store.need(head_name(self._query, batch, index)).to_pybytes().decode())

    def _apply(self, shard: Shard, blocks: list[Block], fresh: bool, taking: list[str] | None) -> Iterator[pa.Table]:
        """Have a shard process blocks that stand together.

        `fresh`: nothing was there before, so assigns hold at once. `taking`: where the names of copies go that this
        shard takes next; None if all this was done before, and is only done again.
        """
        messages: list[pa.Table] = []
        controls: list[pa.Table] = []
        for kind, rows, name in blocks:
            if kind == TAKEN:
                shard.broker.adopt(self._store.get_copy(name))
                continue
            table = from_bytes(self._store.need_checked(name, shared=shard.spec.shards > 1))
            assert table.num_rows == rows, f"{name} holds {table.num_rows} rows, not {rows}"
            if kind == MESSAGES:
                messages.append(table)
            elif kind == CONTROLS:
                controls.append(table)
            else:
                assert kind in (REFUSED_MESSAGES, REFUSED_CONTROLS), f"{name} is of kind {kind}"
                yield shard.refuse(table, "message" if kind == REFUSED_MESSAGES else "subscription")
        events = shard.places.concern(controls) if controls and shard.spec.placed else None
        if events is not None and fresh:
            shard.places.assign(*shard.places.assigned(events))
        if messages or controls:
            yield from shard.apply(Messages(messages) if messages else None, shard.own(controls))
        if events is not None:
            if not fresh:
                self._exchange(shard, events, taking)
            shard.places.forget_ended(events)

    def _exchange(self, shard: Shard, events: pa.Table, taking: list[str] | None) -> None:
        """Give what the events of a batch assign to others, and note what is to be taken from them."""
        ids, takers = shard.places.assigned(events)
        givers = shard.places.of(ids)
        folder = f"{self._query}/copies"
        for taker in np.unique(takers[(givers == shard.index) & (takers != shard.index)]).tolist():
            copied = shard.give(ids.filter(pa.array((givers == shard.index) & (takers == taker))))
            if taking is not None:
                self._store.put_copy(f"{folder}/{self._batch}-{shard.index}-{taker}", copied)
        if taking is not None:
            others = np.unique(givers[(takers == shard.index) & (givers != shard.index)])
            taking += [f"{folder}/{self._batch}-{giver}-{shard.index}" for giver in others.tolist()]
        shard.places.assign(ids, takers)


def head_name(query: str, batch: int, shard: int) -> str:
    """Where the state of a shard after a batch is."""
    return f"{query}/{_HEADS}/{batch}/{shard}.json"
