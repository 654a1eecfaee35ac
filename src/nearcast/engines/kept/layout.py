"""Results that are kept, as arrays: buffers, their entries, who waits for which message, and counters.

`rank` is larger for better messages: the score of TopK, minus the distance of Nearest. Equal ranks: the newer message
is better. Where scores **fade**, the rank is the score before it does; messages are compared by the keys that
`window/recency.py` defines, and floors are keys.
"""

from __future__ import annotations

from typing import NamedTuple

from nearcast.columns.arena import Array, Ints, Longs, record

BUFFER = record(
    ("floor", "f8"),  # rank that a message must reach to be kept, or the mantissa of its key; -inf when complete
    ("dropped", "f8"),  # the same of the best that was dropped as dominated since the last evaluation; -inf for none
    ("start", "i4"),  # first entry in the pool
    ("n_entries", "i4"),
    ("k", "i4"),
    ("block", "u1"),  # size class of the block that its entries lie in, plus 1; 0 for none
    ("touched", "u1"),  # in the event under way: TOUCHED if it changed, AGAIN if more than once, MOVED if its floor did
    ("fades", "u1"),  # 1 if its scores fade: `fading` says more
)
FADING = record(
    ("half_life", "i8"),  # milliseconds
    ("floor", "i8"),  # exponents of the floor and of what was dropped
    ("dropped", "i8"),
)
WATCHED = record(
    ("oldest", "i4"),  # the watched message that was the oldest, plus 1; 0 for none
    ("soonest", "i4"),  # the watched message that expires soonest, plus 1; 0 for none
)
ENTRY = record(
    ("rank", "f8"),
    ("message", "i4"),
    ("mark", "i2"),  # twice the number of better entries known to outlive it, plus 1 if it was emitted as shown
    ("stamp", "u1"),  # when it came, roughly, see `stamp_of`
    packed=True,
)
WAITING = record(("slot", "i4"), ("next", "i4"))  # next: position + 1 of the next one, 0 at the end
LIFETIME = record(  # of a message that an evaluation found: scratch
    ("expires_at", "i8"),
    ("n_outliving", "i4"),  # better messages that surely outlive it
)
CHANGE = record(("rank", "f8"), ("event", "i4"), ("slot", "i4"), ("message", "i4"), ("sign", "i4"))

TOUCHED, MOVED, AGAIN = 1, 2, 4
MOST_MARK = 2**15 - 2  # of marks without the 1: they count no further, which only keeps what might be dropped
LINE = 4  # entries that a line of the processor's cache holds

# positions in `counters`
N_CHANGES, FREE_WAITING, N_FREE_WAITING, N_WAITING, N_TOUCHED, N_BUFFERED = range(6)
N_OFFERED, N_KEPT, N_DROPPED, N_EXPIRED, N_REFILLS, N_SHRUNK, N_WOKEN, N_TAKEN, N_WITHDRAWN = range(6, 15)
N_COUNTERS = 15


class AsOf(NamedTuple):
    """An event, and the moment after it."""

    event: int
    last: int  # newest sequence
    clock: int


class ResultLayout(NamedTuple):
    """All results of one engine."""

    buffers: Array  # BUFFER[n_slots]
    watched: Array  # WATCHED[n_slots]; nothing where no message leaves
    fading: Array  # FADING[n_slots]; nothing while nobody's scores fade
    entries: Array  # ENTRY[]: the pool of buffers
    blocks: Longs  # int64[N_HEADS]: which of it is free, see blocks.py
    above: Longs  # int64[N_HEADS]: the same beyond a boundary, which stands first, see compaction.py
    heads: Ints  # int32[n_message_slots]: position + 1 of the first who waits for each, 0 for none; or nothing, too
    waiting: Array  # WAITING[]: who watches, or watched, which message
    changes: Array  # CHANGE[]: what was emitted in this batch
    touched: Ints  # int32[]: subscriptions changed in this event
    places: Ints  # int32[]: beside it, the first entry of the buffer that changed; see AGAIN
    counters: Longs  # int64[N_COUNTERS]
