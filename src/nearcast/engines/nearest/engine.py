"""The engine: `NearestEngine` keeps the k nearest of every subscription, with an index for all words and one for any.

Events come in turns: the indexes say which subscriptions each arrival of a turn may concern, the results take the
events one after another, and then the indexes follow the balls that have changed.
"""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Floats, Ints, Longs, State, with_room
from nearcast.columns.subscription_tables import PointTable
from nearcast.engines.contract import EngineContext, Stats
from nearcast.engines.exact import ALL_WORDS, NEAREST
from nearcast.engines.kept.engine import DONE, STEP, KeptEngine, policy_of
from nearcast.engines.nearest.aoiq import AoiqTree
from nearcast.engines.nearest.batch import (
    EXTRA,
    N_MOVED,
    N_READ,
    NOBODY,
    VERIFIED,
    Scene,
    Turn,
    add_extras,
    follow,
    keep_turn,
)
from nearcast.engines.nearest.grid import GridPyramid
from nearcast.engines.nearest.search_range import FILED
from nearcast.engines.nearest.settings import NearestSettings
from nearcast.jit import NEED_ROOM
from nearcast.window.live import Steps

_TURN = 1024  # most events in a turn
_PAIRS = 1 << 16  # room for candidates of a turn, unless one event has more


class NearestEngine(KeptEngine):
    """`Nearest`, all words and any word.

    Parameters
    ----------
    table
        The subscriptions.
    context
        What all engines of a broker share.
    settings
        Parameters of both indexes and of the buffers.
    """

    name = "nearest"

    def __init__(self, table: PointTable, context: EngineContext, settings: NearestSettings | None = None) -> None:
        self.settings = settings or NearestSettings()
        super().__init__(NEAREST, table, context, policy_of(context, self.settings.strategy, self.settings.share))
        self._start()
        self._pairs = np.empty(_PAIRS, dtype=np.int64)
        self._extras = np.zeros(_TURN, dtype=EXTRA)
        self._n_verified = 0

    def _start(self) -> None:
        """Nothing is filed."""
        self._all = AoiqTree(self.context.space, self.settings.aoiq)
        self._any = GridPyramid(self.context.space, self.settings.grid)
        self._filed = np.zeros(0, dtype=FILED)
        self._scene: Scene | None = None  # the turn under way
        self._turn: Turn | None = None
        self._n_extras = 0
        self._grown: list[int] = []  # subscriptions whose balls grew in it
        self._widened = np.zeros(0, dtype=np.int32)  # number of the last growth of each, zeros between turns

    def _of_all(self, slots: Ints) -> tuple[Ints, Ints]:
        """Those that ask for all words, and those that ask for any."""
        for_all = self.table.rows["mode"][slots] == ALL_WORDS
        return slots.compress(for_all), slots.compress(~for_all)

    def insert(self, slots: Ints) -> None:
        super().insert(slots)
        self._filed = with_room(self._filed, self.table.slots.capacity)
        of_all, of_any = self._of_all(slots)
        if of_all.size:
            self._all.ensure_terms(self.context.vocabulary.capacity)
        if of_all.size > self._all.n_filed:
            self._build_all()
        else:
            self._file_all(of_all, of_all.size)
        self._file_any(of_any)

    def _build_all(self) -> None:
        buffers = self.results.layout.buffers
        self._all.build(self._filed, self.table.layout, buffers, self._of_all(self.table.used_slots)[0])

    def _file_all(self, slots: Ints, n_new: int) -> None:
        if slots.size:
            self._all.file(self._filed, self.table.layout, self.results.layout.buffers, slots, n_new)

    def _file_any(self, slots: Ints) -> None:
        if slots.size:
            self._any.file(
                self._filed, self.table.layout, self.results.layout.buffers, slots, len(self.table),
                self.context.vocabulary.capacity,
            )  # fmt: skip

    def _file(self, slots: Ints) -> None:
        """File those that are filed already by the balls that they have now."""
        of_all, of_any = self._of_all(slots)
        self._file_all(of_all, 0)
        self._file_any(of_any)

    def remove(self, slots: Ints) -> None:
        of_all, of_any = self._of_all(slots)
        self._all.forget(self._filed, of_all)
        self._any.forget(self._filed, of_any)
        super().remove(slots)

    def _take(self, steps: Steps, cursor: Longs) -> int:
        while True:
            if self._turn is None:
                if cursor[STEP] == steps.arrivals.size:
                    return DONE
                self._open(steps, int(cursor[STEP]))
            code: int = keep_turn(
                self._scene, self._turn, cursor, self._found, self.results.layout, self.results.policy
            )
            if code != DONE:
                return code
            self._close()

    def _open(self, steps: Steps, event: int) -> None:
        """Find the candidates of the next events."""
        messages, vocabulary = self.context.live.table.layout, self.context.vocabulary
        if self._all.n_filed:
            self._all.ensure_terms(vocabulary.capacity)
        end = min(event + _TURN, steps.arrivals.size)
        while True:
            done, n = self._any.find(self._filed, steps, event, end, messages, self._pairs)
            if done > event:
                break
            self._pairs = np.empty(2 * self._pairs.size, dtype=np.int64)
        self._pairs, n = self._all.find(self._filed, steps, (event, done), messages, self._pairs, n)
        pairs, first_extras = np.sort(self._pairs[:n]), np.full(steps.arrivals.size, NOBODY, dtype=np.int32)
        moved = np.empty(n, dtype=np.int32)
        self._turn = Turn(pairs, np.zeros(N_READ, dtype=np.int64), first_extras, self._extras, moved, done)
        self._scene = Scene(
            steps, messages, self.table.layout, self._filed, self._widened[:0], vocabulary.idf, self._scratch(),
            self._where,
        )  # fmt: skip

    def _close(self) -> None:
        """After a turn, let the indexes follow the balls that have changed in it."""
        turn = self._turn
        assert turn is not None
        self._n_verified += int(turn.read[VERIFIED])
        slots = np.concatenate([turn.moved[: turn.read[N_MOVED]], np.array(self._grown, dtype=np.int32)])
        self._widened[self._grown] = 0
        self._turn = self._scene = None
        self._grown, self._n_extras = [], 0
        self._follow(slots)

    def _follow(self, slots: Ints) -> None:
        """Draw the boxes of balls that shrank, and file anew where finer cells will do."""
        moved = np.empty(slots.size, dtype=np.int32)
        space, deepest = self.context.space, (self._all.height, self._any.deepest(len(self.table)))
        n = follow(
            self._filed, self.table.layout, self.results.layout.buffers, slots, (space.metric_code, space.bounds),
            deepest, moved,
        )  # fmt: skip
        if n:
            self._file(moved[:n])

    def resume(self, slots: Ints, n_kept: Ints, messages: Ints, ranks: Floats) -> None:
        super().resume(slots, n_kept, messages, ranks)
        self._file(slots)

    def _refill(self, slots: Ints, event: int, last: int, clock: int) -> None:
        """Evaluate anew, file by the new balls, and compare these with the rest of the turn."""
        super()._refill(slots, event, last, clock)
        self._file(slots)
        if self._scene is None or self._turn is None:
            return
        self._widened = with_room(self._widened, self.table.slots.capacity)
        self._scene = self._scene._replace(widened=self._widened)
        for slot in slots.tolist():
            self._grown.append(slot)
            while True:
                n = add_extras(self._scene, self._turn, slot, len(self._grown), event, self._n_extras)
                if n != NEED_ROOM:
                    break
                self._extras = with_room(self._extras, 2 * self._extras.size)
                self._turn = self._turn._replace(extras=self._extras)
            self._n_extras = n

    def check(self) -> None:
        super().check()
        assert not self._widened.any()
        assert self._turn is None
        of_all, of_any = self._of_all(self.table.used_slots)
        self._all.check(self._filed, of_all)
        self._any.check(self._filed, of_any)

    def stats(self) -> Stats:
        own = self._filed[: self.table.slots.capacity].nbytes + self._widened.nbytes
        own += self._pairs.nbytes + self._extras.nbytes
        shared, of_all, of_any = super().stats(), self._all.stats(), self._any.stats()
        return {
            **shared,
            "candidates": self._n_verified,
            "all": of_all,
            "any": of_any,
            "bytes": shared["bytes"] + own + of_all["bytes"] + of_any["bytes"],
        }

    def refile(self) -> None:
        """File all subscriptions anew, by the balls that they have."""
        self._start()
        self._filed = with_room(self._filed, self.table.slots.capacity)
        self._all.ensure_terms(self.context.vocabulary.capacity)
        self._build_all()
        self._file_any(self._of_all(self.table.used_slots)[1])

    def state(self) -> State:
        own = {"verified": self._n_verified, "filed": self._filed}
        return {**super().state(), **own, "all": self._all.state(), "any": self._any.state()}

    def load(self, state: State) -> None:
        super().load(state)
        self._start()
        self._n_verified, self._filed = state["verified"], state["filed"]
        self._all.load(state["all"])
        self._any.load(state["any"])
