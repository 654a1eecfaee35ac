"""Constants of the package made small for a while: arrays start with no room, sweeps and rebuilds come all the time.

Only constants that plain Python reads: kernels have theirs compiled in. What subscribers are told depends on none.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TIGHT: dict[str, Any] = {
    "broker.broker.CHUNK": 3,
    "broker.vacuum.LEAST": 5,
    "columns.arena.FIRST_ROOM": 1,
    "columns.arena.LARGE": 4,
    "engines.kept.engine.FIRST_FOUND": 1,
    "engines.kept.engine.LONG": 2,
    "engines.kept.engine.SWEPT": 1,
    "engines.nearest.engine.PAIRS": 1,
    "engines.nearest.engine.MOST_EVENTS": 2,
    "engines.nearest.aoiq.tree.LEAST": 2,
    "engines.nearest.aoiq.tree.MEMORY": 20,
    "engines.nearest.grid.grid.LEAST": 2,
    "engines.kept.results.FIRST_ROOM": 1,
    "engines.kept.results.IDLE": 0,
    "engines.parted.engine.FEW": 0,
    "engines.similar.engine.FIRST_ROOM": 1,
    "engines.similar.engine.MOST_ROOM": 2,
    "engines.similar.stamp_index.LEAST_TAIL": 1,
    "engines.similar.stamp_index.MOST_LEAVES": 6,
    "engines.similar.stamp_index.MOST_LISTED": 30,
    "engines.similar.block_pool.FIRST_ROOM": 1,
    "engines.topk.engine.FIRST_ROOM": 1,
    "engines.topk.skype_index.FIRST_ROOM": 1,
    "engines.within.moving.leaf_lists.LEAST_ROWS": 4,
    "engines.within.moving.leaf_lists.SENT_PER_EVENT": 1,
    "engines.within.moving.leaf_lists.SWEPT_PER_EVENT": 1,
    "engines.within.build.recent_messages.N_SAMPLED": 16,
    "engines.within.ap_tree.LISTED_PER_ENTRY": 1,
    "engines.within.ap_tree.DEFERRED_ROOM": 1,
    "engines.within.ap_tree.ROWS_EARNED": 1000,
    "engines.within.ap_tree.ROWS_PER_CALL": (1, 8),
    "engines.live_search.MOST_WORDS": 1,
    "text.key_table.LEAST_DEAD": 1,
    "text.patterns.LEAST_LINKS": 1,
    "text.patterns.LEAST_STEPS": 2,
    "window.index.index.MANY_LIVE": 2,
    "window.index.index.MAX_MEMBERS": 40,
    "window.index.index.MAX_POSTINGS": 200,
    "window.index.index.RECENT_ROOM": 8,
    "window.index.pool.FIRST_ROOM": 1,
}


@contextmanager
def tightened(share: float, seed: int) -> Iterator[list[str]]:
    """A share of all constants, chosen by the seed, is small until the end; gives their names."""
    pick = random.Random(seed)
    chosen = [name for name in TIGHT if pick.random() < share]
    before = []
    try:
        for name in chosen:
            module, _, constant = name.rpartition(".")
            owner = importlib.import_module(f"nearcast.{module}")
            before.append((owner, constant, getattr(owner, constant)))
            setattr(owner, constant, TIGHT[name])
        yield chosen
    finally:
        for owner, constant, value in before:
            setattr(owner, constant, value)
