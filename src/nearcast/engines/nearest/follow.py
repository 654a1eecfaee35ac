"""Draws the boxes of search ranges again after a batch: a kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

from nearcast.columns.arena import Array, Ints
from nearcast.columns.subscription_tables import ENDED, PointLayout
from nearcast.engines.exact import ALL_WORDS
from nearcast.engines.nearest.search_range import draw_box, level_of
from nearcast.jit import kernel, prefetch

_AHEAD = 8  # subscriptions that are read ahead


class DeepestLevels(NamedTuple):
    """Levels of the finest cells."""

    all_words: int
    any_word: int


@kernel
def redraw_boxes(
    filed: Array,
    subscriptions: PointLayout,
    buffers: Array,
    slots: Ints,
    space: Any,
    deepest: DeepestLevels,
    moved: Ints,
) -> int:
    """Draw boxes again; writes those that have shrunk so far as to belong in finer cells, each once; returns how many.

    `slots` may name a subscription more than once, and some that are gone.
    """
    n = 0
    for i in range(slots.size):
        if i + _AHEAD < slots.size:
            prefetch(filed, slots[i + _AHEAD])
            prefetch(buffers, slots[i + _AHEAD])
            prefetch(subscriptions.rows, slots[i + _AHEAD])
        slot = slots[i]
        row, own = subscriptions.rows[slot], filed[slot]
        if (i > 0 and slots[i - 1] == slot) or row.expires == ENDED:
            continue
        if not draw_box(own, space.metric, row.x, row.y, buffers[slot].floor):
            continue
        finest = deepest.all_words if row.mode == ALL_WORDS else deepest.any_word
        if level_of(own, space.metric, row.x, row.y, space.bounds, finest) > own.level:
            moved[n] = slot
            n += 1
    return n
