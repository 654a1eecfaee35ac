"""What a page has room for: of many messages those that matter most, of many subscriptions the first."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Longs

MOST_MESSAGES = 20_000  # some 2 MB of HTML, which every browser draws at once
MOST_SUBSCRIPTIONS = 200


def share(wanted: Array, most: int) -> Longs:
    """The rows to show, in order: all that are wanted, then the last; at most this many."""
    rows = np.flatnonzero(wanted)[-most:]
    others = np.flatnonzero(~wanted)
    return np.sort(np.concatenate([rows, others[max(0, others.size - (most - rows.size)) :]]))
