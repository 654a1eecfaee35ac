"""`PartedEngine`: hands out the calls of an engine to its parts, and puts together what comes back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, State, ranges
from nearcast.columns.message_table import MessageTable
from nearcast.engines.contract import (
    NO_CHANGES,
    Changes,
    Engine,
    EngineContext,
    KeepsResults,
    Stats,
    together,
)
from nearcast.engines.parted.join import joining
from nearcast.engines.parted.merge import merged
from nearcast.engines.parted.share import TableShare, part_of
from nearcast.engines.parted.workers import Workers
from nearcast.window.live import Steps
from nearcast.window.reader import LiveReader

T = TypeVar("T")

FEW = 32  # events or subscriptions that one thread has done before others have begun


class PartedEngine:
    """An engine in as many parts as there are workers.

    Parameters
    ----------
    make
        Makes the engine of a part from a table and a context.
    table
        The subscriptions of all parts.
    context
        What all engines of a broker share.
    workers
        The threads.
    """

    def __init__(
        self, make: Callable[[Any, EngineContext], Engine], table: Any, context: EngineContext, workers: Workers
    ) -> None:
        self.table, self.context = table, context
        self._workers = workers
        self._shares = [TableShare(table, part, workers.n) for part in range(workers.n)]
        self._readers = [LiveReader(context.live) for _ in self._shares]
        self.parts = [
            make(share, context._replace(live=cast(Any, reader)))
            for share, reader in zip(self._shares, self._readers, strict=True)
        ]
        self.keeps_results = self.parts[0].keeps_results

    @property
    def settings(self) -> Any:
        """Those of every part."""
        return getattr(self.parts[0], "settings", None)

    @property
    def _keepers(self) -> Sequence[KeepsResults]:
        return cast(Sequence[KeepsResults], self.parts)

    def _run(self, tasks: Sequence[Callable[[], T]], n: int) -> list[T]:
        """What the tasks, one for each part, return; `n` tells how much there is to do."""
        done = self._workers.run(tasks) if n >= FEW else [task() for task in tasks]
        for reader in self._readers:
            reader.credit()
        return done

    def _rows(self, slots: Ints) -> list[Array]:
        """Which of these slots belong to each part."""
        owners = part_of(slots, len(self.parts))
        return [np.flatnonzero(owners == part) for part in range(len(self.parts))]

    def insert(self, slots: Ints) -> None:
        own = [slots[rows] for rows in self._rows(slots)]
        for share, some in zip(self._shares, own, strict=True):
            share.n_filed += some.size
        self._run([partial(part.insert, some) for part, some in zip(self.parts, own, strict=True)], slots.size)

    def remove(self, slots: Ints) -> None:
        own = [slots[rows] for rows in self._rows(slots)]
        self._run([partial(part.remove, some) for part, some in zip(self.parts, own, strict=True)], slots.size)
        for share, some in zip(self._shares, own, strict=True):
            share.n_filed -= some.size

    def move(self, slots: Ints, before: Array) -> Changes:
        own = self._rows(slots)
        tasks = [partial(part.move, slots[rows], before[rows]) for part, rows in zip(self.parts, own, strict=True)]
        return together(self._run(tasks, slots.size))

    def publish(self, steps: Steps) -> Changes:
        n = steps.rows.size if len(self.table) else 0
        emitted = self._run([partial(part.publish, steps) for part in self.parts], n)
        told = [some for some in emitted if some.slots.size]
        if len(told) < 2:
            return told[0] if told else NO_CHANGES
        changes, tasks = joining(told, len(self.parts))
        self._run(tasks, FEW if len(tasks) > 1 else 0)
        return changes

    def who_wants(self, messages: MessageTable, steps: Steps) -> tuple[Ints, Floats]:
        found = self._run([partial(part.who_wants, messages, steps) for part in self.parts], 0)
        return np.concatenate([slots for slots, _ in found]), np.concatenate([ranks for _, ranks in found])

    def fill(self, slots: Ints) -> Changes:
        if self.keeps_results and slots.size:
            live = self.context.live  # the index that many questions are worth is made once, for all parts
            live.index.credit(live.index.for_many(slots.size, live.table, self.context.vocabulary.idf))
        own = self._rows(slots)
        tasks = [partial(part.fill, slots[rows]) for part, rows in zip(self.parts, own, strict=True) if rows.size]
        return together(self._run(tasks, slots.size)) if tasks else NO_CHANGES

    def result(self, slot: int) -> tuple[Ints, Floats]:
        part = self.parts[int(part_of(np.array([slot]), len(self.parts))[0])]
        (found,) = self._run([partial(part.result, slot)], 0)
        return found

    def reweighed(self) -> None:
        self._run([part.reweighed for part in self.parts], len(self.table))

    def kept(self, slots: Ints) -> tuple[Ints, Ints, Floats]:
        own = self._rows(slots)
        found = [part.kept(slots[rows]) for part, rows in zip(self._keepers, own, strict=True)]
        counts, messages, ranks = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.argsort(np.concatenate(own))
        at = ranges((np.cumsum(counts, dtype=np.int64) - counts)[order], counts[order])
        return counts[order], messages[at], ranks[at]

    def resume(self, slots: Ints, n_kept: Ints, messages: Ints, ranks: Floats) -> None:
        starts = np.cumsum(n_kept, dtype=np.int64) - n_kept
        for part, rows in zip(self._keepers, self._rows(slots), strict=True):
            at = ranges(starts[rows], n_kept[rows])
            part.resume(slots[rows], n_kept[rows], messages[at], ranks[at])

    def mark_messages(self, held: Array) -> None:
        for part in self._keepers:
            part.mark_messages(held)

    def check(self) -> None:
        for part, share in zip(self.parts, self._shares, strict=True):
            assert len(share) == share.used_slots.size
            part.check()
        assert sum(map(len, self._shares)) == len(self.table)

    def stats(self) -> Stats:
        return {"parts": len(self.parts), **merged([part.stats() for part in self.parts])}

    def state(self) -> State:
        return {str(at): part.state() for at, part in enumerate(self.parts)}

    def load(self, state: State) -> None:
        for share in self._shares:
            share.n_filed = share.used_slots.size
        tasks = [partial(part.load, state[str(at)]) for at, part in enumerate(self.parts)]
        self._run(tasks, len(self.table))
