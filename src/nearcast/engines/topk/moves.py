"""Which subscriptions lie elsewhere than they are filed: a kernel."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Ints
from nearcast.jit import kernel
from nearcast.window.curve import to_point


@kernel
def mark_moved(faces, slots, rows, metric, marks):
    """Set marks[i] where the point of a subscription is not the one of its row."""
    for i in range(slots.size):
        face, row = faces[slots[i]], rows[slots[i]]
        x, y, z = to_point(metric, row.x, row.y)
        marks[i] = x != face.x or y != face.y or z != face.z


def moved(faces: Array, slots: Ints, rows: Array, metric: int) -> Ints:
    """The subscriptions among these that lie elsewhere than they are filed."""
    marks = np.zeros(slots.size, dtype=np.bool_)
    mark_moved(faces, slots, rows, metric, marks)
    return slots.compress(marks)
