"""The engine: `NearestEngine` keeps the k nearest of every subscription, those of any word in a grid.

Events come in turns: the indexes say which subscriptions each arrival of a turn may concern, the results take the
events one after another, and then the indexes follow the balls that have changed.
"""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Ints, Longs, State, with_room
from nearcast.columns.subscriptions import PointTable
from nearcast.engines.checks import NEAREST
from nearcast.engines.contract import NO_CHANGES, Changes, Stats, Surroundings
from nearcast.engines.nearest_any import GridIndex
from nearcast.engines.nearest_any import Settings as GridSettings
from nearcast.engines.offering import (
    DONE,
    EXTRA_ROW,
    N_CURSOR,
    NOBODY,
    SHORT,
    STEP,
    VERIFIED,
    Scene,
    Turn,
    add_extras,
    follow,
    keep_turn,
)
from nearcast.engines.oracle import KeeperOracle
from nearcast.engines.reach import FILED
from nearcast.engines.results import is_short
from nearcast.jit import NEED_ROOM
from nearcast.window.window import Steps

_TURN = 1024  # most events in a turn
_PAIRS = 1 << 16  # room for candidates of a turn, unless one event has more


class NearestEngine(KeeperOracle):
    """`Nearest`, all words and any word.

    Parameters
    ----------
    table
        The subscriptions.
    around
        What all engines of a broker share.
    grid
        Parameters of the index for any word.
    """

    def __init__(self, table: PointTable, around: Surroundings, grid: GridSettings | None = None) -> None:
        super().__init__(NEAREST, table, around)
        self.grid_settings = grid or GridSettings()
        self._grid = GridIndex(around.space, self.grid_settings)
        self._filed = np.zeros(0, dtype=FILED)
        self._pairs = np.empty(_PAIRS, dtype=np.int64)
        self._extras = np.zeros(_TURN, dtype=EXTRA_ROW)
        self._n_extras = 0
        self._widened: list[int] = []  # subscriptions whose balls grew in the turn under way
        self._n_verified = 0

    def insert(self, slots: Ints) -> None:
        super().insert(slots)
        self._filed = with_room(self._filed, self.table.slots.capacity)
        self._file(slots)

    def remove(self, slots: Ints) -> None:
        self._grid.forget(self._filed, slots)
        super().remove(slots)

    def refresh(self, slots: Ints) -> Changes:
        changes = super().refresh(slots)
        self._file(slots)
        return changes

    def _file(self, slots: Ints) -> None:
        """File by the balls as they are now."""
        self._grid.file(
            self._filed, self.table.layout, self.results.layout.buffers, slots, len(self.table),
            self.around.vocabulary.capacity,
        )  # fmt: skip

    def publish(self, steps: Steps) -> Changes:
        n = steps.arrivals.size
        if not len(self.table) or not n:
            return NO_CHANGES
        live = self.around.live
        self.results.begin(live.table.ids.keys.capacity)
        first_extras = np.full(n, NOBODY, dtype=np.int32)
        event = 0
        while event < n:
            end, n_pairs = self._grid.find(
                self._filed, steps, event, min(event + _TURN, n), live.table.layout, self._pairs
            )
            if end == event:
                self._pairs = np.empty(2 * self._pairs.size, dtype=np.int64)
                continue
            pairs = np.sort(self._pairs[:n_pairs])
            self._keep(steps, event, Turn(pairs, first_extras, self._extras, end))
            self._follow(pairs & 0xFFFFFFFF)
            event = end
        return self._changes()

    def _keep(self, steps: Steps, event: int, turn: Turn) -> None:
        """Let the events of a turn happen."""
        vocabulary, results = self.around.vocabulary, self.results
        scene = Scene(
            steps, self.around.live.table.layout, self.table.layout, self._filed, vocabulary.idf, self._scratch(),
            self._where,
        )  # fmt: skip
        cursor = np.zeros(N_CURSOR, dtype=np.int64)
        cursor[STEP] = event
        while True:
            code = keep_turn(scene, turn, cursor, results.layout, results.policy)
            if code == DONE:
                break
            if code == SHORT:
                turn = self._refill(scene, turn, int(cursor[STEP]))
            else:
                self._grow(steps, cursor)
        self._n_verified += int(cursor[VERIFIED])

    def _refill(self, scene: Scene, turn: Turn, event: int) -> Turn:
        """Evaluate anew whom an event left short, and compare their balls with the rest of the turn."""
        results, steps = self.results, scene.steps
        short = np.array([slot for slot in results.touched if is_short(results.layout, slot)], dtype=np.int32)
        for slot in short.tolist():
            self._evaluate(slot, event, int(steps.lasts[event]), int(steps.clocks[event]))
        self._file(short)
        for slot in short.tolist():
            self._widened.append(slot)
            while True:
                n = add_extras(scene, turn, slot, len(self._widened), event, self._n_extras)
                if n != NEED_ROOM:
                    break
                self._extras = with_room(self._extras, 2 * self._extras.size)
                turn = turn._replace(extras=self._extras)
            self._n_extras = n
        return turn

    def _follow(self, slots: Longs) -> None:
        """After a turn: draw the boxes of balls that shrank, and file anew where finer cells will do."""
        grown = np.array(self._widened, dtype=np.int64)
        self._widened, self._n_extras = [], 0
        slots = np.concatenate([slots, grown])
        moved = np.empty(slots.size, dtype=np.int32)
        n = follow(
            self._filed, self.table.layout, self.results.layout.buffers, slots,
            (self.around.space.metric_code, self.around.space.bounds), self._grid.deepest(len(self.table)), moved,
        )  # fmt: skip
        if n:
            self._file(moved[:n])

    def check(self) -> None:
        super().check()
        assert not self._filed["widened"].any()
        assert not self._widened
        self._grid.check(self._filed)

    def stats(self) -> Stats:
        own = self._filed.nbytes + self._pairs.nbytes + self._extras.nbytes
        shared = super().stats()
        grid = self._grid.stats()
        return {
            **shared,
            "engine": "nearest",
            "candidates": self._n_verified,
            "any": grid,
            "bytes": shared["bytes"] + own + grid["bytes"],
        }

    def state(self) -> State:
        return {**super().state(), "verified": self._n_verified}

    def load(self, state: State) -> None:
        super().load(state)
        self._n_verified = int(state["verified"])
        self._grid = GridIndex(self.around.space, self.grid_settings)
        self._filed = np.zeros(self.table.slots.capacity, dtype=FILED)
        self._file(self.table.used_slots)
