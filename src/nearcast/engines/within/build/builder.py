"""The Python side of `tasks`: `TreeBuilder` owns the stacks, grows what a kernel asks for, and resumes it."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Ints, with_room
from nearcast.engines.within.arrays import TreeArrays, class_of, class_room
from nearcast.engines.within.build.layout import (
    BUDGET,
    N_TASKS,
    TASK,
    BuildStacks,
    PartitionScratch,
    Plan,
    Sample,
    new_scratch,
)
from nearcast.engines.within.build.tasks import (
    DONE,
    NEED_SAMPLED,
    NEED_STACK,
    NEED_TARGETS,
    NEED_TASKS,
    PAUSED,
    build,
    copies_at,
    put_leaf,
    put_task,
)
from nearcast.engines.within.layout import ENTRY
from nearcast.engines.within.leaf_block import lines_for
from nearcast.engines.within.upkeep.subtree import sample_reaching
from nearcast.engines.within.word_order import WordOrder

_ALL = 2**62
_SHORT, _SHORT_SAMPLE = 1024, 256  # a list of up to 1,024 entries is judged by about 256 messages
_GROWS = {
    NEED_STACK: ("stack",),
    NEED_TARGETS: ("targets", "target_ranks"),
    NEED_SAMPLED: ("messages", "etas"),
    NEED_TASKS: ("tasks",),
}


class TreeBuilder:
    """Builds trees from lists of entries, each to hang below a part."""

    def __init__(self, fanout: int) -> None:
        self._fanout = fanout
        room = 2 * fanout + 4
        ints = [np.zeros(room, np.int32) for _ in range(4)]
        fill = np.zeros(fanout + 2, np.int64)
        reached = [np.zeros(fanout + 2, np.int32) for _ in range(2)]
        self._builder = BuildStacks._make(
            [np.zeros(3, np.int64), np.zeros(room, TASK), np.zeros(0, ENTRY), *ints, fill, *reached]
        )
        self._scratch: PartitionScratch = new_scratch(0, 0, fanout)

    @property
    def busy(self) -> bool:
        """Are there tasks left?"""
        return bool(self._builder.state[N_TASKS])

    def stack(self, n: int) -> Array:
        """Room for the list of the first task."""
        self._builder = self._builder._replace(stack=with_room(self._builder.stack, n))
        return self._builder.stack

    def adopt(self, entries: Array) -> None:
        """Use this array as the stack; it holds the list of the first task."""
        self._builder = self._builder._replace(stack=entries)

    def start(
        self, arrays: TreeArrays, part: int, n_rows: int, sample: Sample, path: Ints, hook: int | None = None
    ) -> None:
        """The first `n_rows` of the stack shall become the tree of `part`, hung below it or below `hook`."""
        n = sample.xs.size
        builder = self._builder = self._builder._replace(
            messages=with_room(self._builder.messages, n), etas=with_room(self._builder.etas, n)
        )
        put_task(arrays.layout, builder, part, 0, n_rows)
        step = 1 if n_rows > _SHORT else -(-n // _SHORT_SAMPLE)
        task = builder.tasks[0]
        task["n_sample"] = sample_reaching(
            arrays.layout, sample, part, max(1, step), path, builder.messages, builder.etas
        )
        task["part"] = part if hook is None else hook
        task["copies"] = copies_at(arrays.layout, part)

    def hang_leaf(self, arrays: TreeArrays, part: int, n_rows: int, plan: Plan) -> None:
        """The first `n_rows` of the stack, which fit a leaf, become one below `part`.

        `start` and `run` would make the same one. But few subscriptions would then wait until `build` is compiled.
        """
        while put_leaf(arrays.layout, self._builder, part, n_rows, plan) != DONE:
            self._make_room(arrays, n_rows)

    def run(self, arrays: TreeArrays, order: WordOrder, plan: Plan, sample: Sample, n_rows: int = _ALL) -> None:
        """Build until all is done or `n_rows` rows were handled."""
        builder, scratch = self._builder, self._scratch
        n_ranks = order.n_ranks
        if scratch.counts.size < n_ranks or scratch.places.shape[0] < sample.xs.size:
            scratch = self._scratch = new_scratch(2 * n_ranks, sample.xs.size, self._fanout)
        builder.state[BUDGET] = n_rows
        while True:
            code = build(arrays.layout, builder, order.ranks, order.lowest, plan, sample, scratch)
            if code in (DONE, PAUSED):
                break
            if code in _GROWS:
                short = {name: getattr(builder, name) for name in _GROWS[code]}
                grown = {name: with_room(array, array.size + 1) for name, array in short.items()}
                builder = self._builder = builder._replace(**grown)
            else:
                self._make_room(arrays, int(builder.tasks["n_rows"][builder.state[N_TASKS] - 1]))

    def _make_room(self, arrays: TreeArrays, n_next: int) -> None:
        """Room for any node, or for a leaf of `n_next` rows."""
        arrays.make_room(64, 4 * self._fanout, 64, class_room(class_of(lines_for(n_next, True))))

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (*self._builder, *self._scratch))
