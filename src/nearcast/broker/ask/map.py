"""A map of a broker as it stands: live messages, subscriptions, and what their results hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from nearcast.broker.ask.subscriptions import subscription_table
from nearcast.broker.parts import Parts
from nearcast.broker.registry import Registry, unknown
from nearcast.columns.arena import Ints, starts_of
from nearcast.columns.arrow_rows import mappings, rows_of
from nearcast.columns.decode_subscriptions import as_subscription
from nearcast.columns.message_table import MessageTable
from nearcast.columns.times import FOREVER
from nearcast.model.codec import subscription_to_json
from nearcast.page.bounds import bounds_around
from nearcast.page.draw import draw
from nearcast.page.map import Map
from nearcast.page.report import counted
from nearcast.page.share import MOST_MESSAGES, MOST_SUBSCRIPTIONS, share
from nearcast.text.strings import strings_to_arrow


def map_of_now(ids: Iterable[str | int] | None, parts: Parts, title: str) -> Map:
    """The subscriptions of these ids, or of all, and their results, as far as a page has room.

    Raises
    ------
    UnknownId
        If one of `ids` is no subscription's.
    """
    numbers = parts.registry.in_order() if ids is None else _numbers(ids, parts.registry)
    live, shown = parts.context.live, numbers[:MOST_SUBSCRIPTIONS]
    people = _people(shown, parts)
    results = [parts.engines[kind].result(slot) for kind, slot in map(parts.registry.where, shown.tolist())]
    held = np.concatenate([np.zeros(0, np.int32), *(found for found, _ in results)])
    slots = live.table.live_slots
    if live.window is None:  # no message is live; some are held
        slots = slots[np.isin(slots, held)]
    kept = slots[share(np.isin(slots, held), MOST_MESSAGES)]
    messages = _messages(kept, live.table)
    id_of = dict(zip(kept.tolist(), (message["id"] for message in messages), strict=True))
    holds = [
        {"subscription": person["id"], "message": id_of[slot], "sign": "+", "score": score, "ts": live.clock}
        for person, (found, scores) in zip(people, results, strict=True)
        for slot, score in zip(found.tolist(), _scores(scores), strict=True)
        if slot in id_of
    ]
    space = parts.context.space
    return draw(
        title=title,
        bounds=bounds_around(messages, people, space),
        messages=messages,
        subscribers=people,
        updates=holds,
        summary={
            "live messages": counted(kept.size, slots.size),
            "subscriptions": counted(shown.size, len(parts.registry)),
        },
        metric=space.metric,
        still=True,
    )


def _numbers(ids: Iterable[str | int], registry: Registry) -> Ints:
    numbers = []
    for id in dict.fromkeys(rows_of("ids", ids)):
        number = registry.find(id)
        if number < 0:
            raise unknown(id)
        numbers.append(number)
    return np.array(numbers, dtype=np.int32)


def _people(numbers: Ints, parts: Parts) -> list[dict[str, Any]]:
    if not numbers.size:
        return []
    table = subscription_table(numbers, parts)
    return [subscription_to_json(as_subscription(row)) for row in mappings("subscriptions", table)]


def _scores(scores: Any) -> list[float | None]:
    return [None if np.isnan(score) else float(score) for score in scores]


def _messages(slots: Ints, table: MessageTable) -> list[dict[str, Any]]:
    copied = table.copy(slots)
    rows = copied["rows"]
    said = strings_to_arrow(copied["words"], copied["starts"]).to_pylist()
    ends = starts_of(rows["n_terms"])
    ids: pa.Array = table.ids.to_arrow(slots)
    return [
        {
            "id": id,
            "lon": x,
            "lat": y,
            "text": " ".join(said[ends[row] : ends[row + 1]]),
            "ts": ts,
            "expires": None if expires == FOREVER else expires,
        }
        for row, (id, x, y, ts, expires) in enumerate(
            zip(ids.to_pylist(), *(rows[name].tolist() for name in ("x", "y", "ts", "expires_at")), strict=True)
        )
    ]
