"""The arrays of the subscription index: subscriptions are filed and taken out, and the arrays grow."""

from __future__ import annotations

import math

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, State, with_room
from nearcast.columns.subscription_tables import PointLayout
from nearcast.engines.blocks import N_HEADS, USED
from nearcast.engines.topk.build import file_many, unfile_many
from nearcast.engines.topk.dues import DUE, Floors, requeue
from nearcast.engines.topk.events import refile_many
from nearcast.engines.topk.keys import point_of
from nearcast.engines.topk.layout import (
    BUILDS,
    CANDIDATES,
    CELL,
    CELLS,
    CELLS_SKIPPED,
    FACE,
    GROUP,
    GROUPS,
    GROUPS_SKIPPED,
    LIST,
    N_WORK,
    PADDING,
    POSTING,
    REFILED,
    VERIFIED,
    VISITED,
    WIDTH,
    PostingPool,
    Shape,
    SubscriptionLayout,
)
from nearcast.engines.topk.settings import SkypeSettings
from nearcast.jit import kernel
from nearcast.space.space import Space
from nearcast.window.index.heaps import QUEUED
from nearcast.window.index.index import frame_of

FIRST_ROOM = 256

_WORK = {
    "cells": CELLS,
    "cells skipped": CELLS_SKIPPED,
    "groups": GROUPS,
    "groups skipped": GROUPS_SKIPPED,
    "visited": VISITED,
    "candidates": CANDIDATES,
    "verified": VERIFIED,
    "refiled": REFILED,
    "builds": BUILDS,
}


@kernel
def mark_moved(faces: Array, slots: Ints, rows: Array, metric: int, marks: Array) -> None:
    """Set marks[i] where the point of a subscription is not that of its row, as far as float32 tells."""
    for i in range(slots.size):
        face, row = faces[slots[i]], rows[slots[i]]
        x, y, z = point_of(metric, row.x, row.y)
        marks[i] = np.float32(x) != face.x or np.float32(y) != face.y or np.float32(z) != face.z


def pool_of(ints: Ints) -> PostingPool:
    """An array as a pool of postings."""
    return PostingPool(ints, ints.view(np.float32))


def links_of(ints: Ints) -> Array:
    """A pool's array by postings."""
    return ints[: ints.size // WIDTH * WIDTH].view(POSTING)


class SkypeIndex:
    """Subscriptions by word, place, alpha and floor."""

    def __init__(self, space: Space, settings: SkypeSettings) -> None:
        frame = frame_of(space)
        y, y_scale = frame.y, frame.y_scale
        if space.metric == "haversine":  # latitudes are taken by their sines
            y, top = (math.sin(math.radians(lat)) for lat in space.bounds[1::2])
            y_scale = 1.0 / (top - y) if top > y else 0.0
        self.shape = Shape(
            settings.cell, settings.groups, settings.prune_groups, frame.metric, frame.x, y, frame.x_scale, y_scale
        )
        self._work = np.zeros(N_WORK, dtype=np.int64)
        self.clear()

    def clear(self) -> None:
        """File nobody."""
        ints = np.zeros(FIRST_ROOM * WIDTH, dtype=np.int32)
        self.layout = SubscriptionLayout(
            np.zeros(0, dtype=FACE),
            np.zeros(0, dtype=LIST),
            np.zeros(FIRST_ROOM, dtype=GROUP),
            np.zeros(FIRST_ROOM, dtype=CELL),
            np.zeros(N_HEADS, dtype=np.int64),
            pool_of(ints),
            np.zeros(N_HEADS, dtype=np.int64),
            links_of(ints),
            self._work,
            np.zeros(0, dtype=DUE),
            np.zeros(0, dtype=QUEUED),
            np.zeros(1, dtype=np.int64),
        )

    def file(self, slots: Ints, subscriptions: PointLayout, idf: Floats, floors: Floors) -> None:
        """File subscriptions that are not, under the floors of their buffers."""
        self.layout = self.layout._replace(
            faces=with_room(self.layout.faces, int(slots.max(initial=-1)) + 1),
            lists=with_room(self.layout.lists, idf.size),
        )
        if floors.fading.size > self.layout.dues.size:
            self._grow_dues(floors.fading.size)
        done = 0
        while True:
            done = file_many(self.layout, slots, done, subscriptions, idf, floors, self.shape)
            if done == slots.size:
                return
            self._grow()

    def _grow_dues(self, n: int) -> None:
        """Room for the floors of `n` subscriptions, and for a queue with some outdated entries."""
        dues = np.zeros(n, dtype=DUE)
        dues["queued"] = np.inf
        dues[: self.layout.dues.size] = self.layout.dues
        queue = np.zeros(2 * n + FIRST_ROOM, dtype=QUEUED)
        count = np.array([requeue(dues, queue)], dtype=np.int64)
        self.layout = self.layout._replace(dues=dues, due_queue=queue, due_count=count)

    def _grow(self) -> None:
        """Room for more groups and postings: for those that are nearly full, or for both if neither is."""
        old = self.layout
        n_groups, n_postings = old.groups.size, old.postings.ints.size // WIDTH
        more_groups, more_postings = (
            blocks[USED] >= n - n // 8 for blocks, n in ((old.group_blocks, n_groups), (old.posting_blocks, n_postings))
        )
        neither = not (more_groups or more_postings)
        if more_groups or neither:
            groups, cells = with_room(old.groups, n_groups + 1), with_room(old.cells, n_groups + 1)
            self.layout = self.layout._replace(groups=groups, cells=cells)
        if more_postings or neither:
            ints = with_room(old.postings.ints, old.postings.ints.size + 1)
            self.layout = self.layout._replace(postings=pool_of(ints), links=links_of(ints))

    def unfile(self, slots: Ints, subscriptions: PointLayout) -> None:
        """Take subscriptions out."""
        unfile_many(self.layout, slots, subscriptions, self.shape)

    def refile(self, slots: Ints, subscriptions: PointLayout, idf: Floats, floors: Floors) -> None:
        """File subscriptions under the floors that their buffers have now, where these have moved in this event."""
        refile_many(self.layout, subscriptions, idf, slots, floors, self.shape)

    def moved(self, slots: Ints, rows: Array) -> Ints:
        """The subscriptions among these that lie elsewhere than they are filed."""
        marks = np.zeros(slots.size, dtype=np.bool_)
        mark_moved(self.layout.faces, slots, rows, self.shape.metric, marks)
        return slots.compress(marks)

    def _used(self) -> State:
        """What is in use, as arrays."""
        old = self.layout
        arrays = {name: array for name, array in old._asdict().items() if name != "links"}
        return {
            **arrays,
            "groups": old.groups[: old.group_blocks[USED]],
            "cells": old.cells[: old.group_blocks[USED]],
            "postings": old.postings.ints[: WIDTH * old.posting_blocks[USED]],
        }

    @property
    def nbytes(self) -> int:
        """Bytes in use; room ahead is never touched, so the system has not given it out yet."""
        return sum(array.nbytes for array in self._used().values())

    def stats(self) -> dict[str, int]:
        """Counts of work."""
        return {name: int(self._work[at]) for name, at in _WORK.items()}

    def state(self) -> State:
        """Everything but the queue, which follows from what is due when."""
        arrays = self._used()
        return {name: arrays[name] for name in arrays if name not in ("due_queue", "due_count")}

    def load(self, state: State) -> None:
        postings = np.append(state["postings"], np.zeros(PADDING, dtype=np.int32))
        self.layout = self.layout._replace(**{**state, "postings": pool_of(postings), "links": links_of(postings)})
        self._work = self.layout.work
        self._grow_dues(self.layout.dues.size)
