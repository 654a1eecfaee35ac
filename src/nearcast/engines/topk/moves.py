"""Which subscriptions lie elsewhere than they are filed: a kernel."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Ints
from nearcast.engines.topk.keys import point_of
from nearcast.jit import kernel


@kernel
def mark_moved(faces, slots, rows, metric, marks):
    """Set marks[i] where the point of a subscription is not that of its row, as far as float32 tells."""
    for i in range(slots.size):
        face, row = faces[slots[i]], rows[slots[i]]
        x, y, z = point_of(metric, row.x, row.y)
        marks[i] = np.float32(x) != face.x or np.float32(y) != face.y or np.float32(z) != face.z


def moved(faces: Array, slots: Ints, rows: Array, metric: int) -> Ints:
    """The subscriptions among these that lie elsewhere than they are filed."""
    marks = np.zeros(slots.size, dtype=np.bool_)
    mark_moved(faces, slots, rows, metric, marks)
    return slots.compress(marks)
