"""Long work in parts: a batch, or a stream of batches as they come, and whoever watches is told how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nearcast.columns.arena import Ints
from nearcast.columns.updates import Updates
from nearcast.model.frames import size_of
from nearcast.work_progress import Work

Take = Callable[[Any, Work], Updates]

PIECE = 65_536  # subscriptions whose results are looked for at a time; they share what their searches read


def take_in_turn(parts: Iterable[tuple[int, Any]], take: Take, work: Work) -> list[tuple[int, Updates]]:
    """What every part gives, with the number of its first row."""
    taken = []
    try:
        for first, part in parts:
            work.begin_part()
            taken.append((first, take(part, work)))
            n_rows = size_of(part)
            work.reach(None if n_rows is None else first + n_rows)
            work.check()
    finally:
        work.end()
    return taken


def in_pieces(slots: Ints, work: Work) -> Iterator[Ints]:
    """These slots, some at a time; they are done when the next are asked for."""
    for at in range(0, slots.size, PIECE):
        yield slots[at : at + PIECE]
        work.add(min(PIECE, slots.size - at))
