"""Changes that several parts emitted become those of one engine, in the order of events and slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from nearcast.columns.arena import Longs
from nearcast.engines.change_order import rows_by_event_and_slot, take_rows
from nearcast.engines.contract import Changes, room_for_changes, together

LITTLE = 1 << 12  # changes that one thread puts in order before others have begun


def joining(emitted: Sequence[Changes], n_tasks: int) -> tuple[Changes, list[Callable[[], None]]]:
    """All changes, once the tasks are done: each puts some events in order. There are `n_tasks`, or one for few."""
    given, lengths = together(emitted), np.array([some.slots.size for some in emitted])
    ends = np.cumsum(lengths)
    firsts, n = ends - lengths, int(lengths.sum())
    out, longest = room_for_changes(n), emitted[int(lengths.argmax())].events
    n_tasks = n_tasks if n > LITTLE else 1
    bounds = longest[[longest.size * task // n_tasks for task in range(1, n_tasks)]]
    inner = zip(*(np.searchsorted(some.events, bounds) for some in emitted), strict=True)
    cuts = [firsts, *(firsts + np.array(cut) for cut in inner), ends]
    return out, [partial(_put_in_order, given, firsts, run, out) for run in pairwise(cuts)]


def _put_in_order(given: Changes, firsts: Longs, runs: tuple[Longs, Longs], out: Changes) -> None:
    """Write the changes of these runs, one of each part, to where they belong."""
    to, end = (int((at - firsts).sum()) for at in runs)
    take_rows(given, rows_by_event_and_slot(given, runs), Changes._make(column[to:end] for column in out))
