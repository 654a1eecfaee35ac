"""Many updates become their net change: what a digest, a throttle and a slow consumer are told.

Over the events after a and up to b, for every subscription and message: it was in the result before if the first sign
is ``-``, and is in it after if the last one is ``+``. The difference is told, ``-`` before ``+``, in the order of their
last updates. Applied to the result at a, it gives the result at b.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Row = list[Any]  # subscription, sign, message, score, ts


def net(rows: Iterable[Row]) -> list[Row]:
    """The net change of updates in order; subscriptions stay in the order in which they first come."""
    first: dict[tuple[Any, Any], str] = {}
    last: dict[Any, dict[Any, Row]] = {}
    for row in rows:
        subscription, sign, message = row[0], row[1], row[2]
        first.setdefault((subscription, message), sign)
        own = last.setdefault(subscription, {})
        own.pop(message, None)
        own[message] = row
    told: list[Row] = []
    for subscription, own in last.items():
        # In before and in after, or out before and out after: nothing to tell.
        changed = [row for message, row in own.items() if first[subscription, message] == row[1]]
        told += [row for row in changed if row[1] == "-"]
        told += [row for row in changed if row[1] == "+"]
    return told
