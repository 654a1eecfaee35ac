"""A run of one's own as a map to replay: what was published, who asked, and what they were told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from nearcast.columns.arrow_rows import as_table, parts_of, rows_of
from nearcast.columns.decode_messages import as_message
from nearcast.columns.decode_subscriptions import as_subscription
from nearcast.columns.times import rows_with_times
from nearcast.columns.updates import Updates
from nearcast.errors import InvalidInput
from nearcast.model.checks import is_a
from nearcast.model.codec import event_from_json, message_to_json, subscription_to_json
from nearcast.model.event import Event, Move, Publish, Subscribe, Unsubscribe
from nearcast.model.geojson import region_to_json
from nearcast.model.message import Message
from nearcast.model.rows import MessageRows, SubscriptionRows
from nearcast.page.bounds import bounds_around
from nearcast.page.draw import draw
from nearcast.page.map import Map
from nearcast.page.share import MOST_MESSAGES, MOST_SUBSCRIPTIONS, share
from nearcast.space.space import Space
from nearcast.window.window import Window

_WORLD = Space((-180.0, -90.0, 180.0, 90.0))


def report(
    messages: MessageRows,
    subscriptions: SubscriptionRows,
    updates: Updates | Iterable[Updates],
    *,
    title: str = "Nearcast",
    space: Space | None = None,
    window: Window | None = None,
) -> Map:
    """A map of a run, to replay: messages as they came, regions as they moved, and what every subscriber was told.

    A page shows up to 200 subscriptions, the first, and up to 20,000 messages, those that they were told of and the
    newest; its top says what was left out.

    Parameters
    ----------
    messages, subscriptions
        What was published and who subscribed, in any form that `publish` and `subscribe_many` take. Among
        subscriptions there may be events in the JSON form, such as moves with their ``ts``. Rows that cannot be
        honoured are passed over.
    updates
        What came of it: `Updates`, or several of them in the order of the calls.
    title
        What stands at the top.
    space, window
        Those of the broker. Without a space the map is of the Earth; without a window messages do not fade.

    Raises
    ------
    InvalidInput
        For updates, a space or a window that is none, and for what is neither rows nor columns.

    Examples
    --------
    >>> import nearcast as nc
    >>> broker = nc.Broker(nc.Space((13, 52, 14, 53)), window=nc.Window(age=3600))
    >>> asked = [nc.Subscription("bob", nc.Within(nc.Circle(13.4, 52.5, 800), "fire OR smoke"))]
    >>> heard = [broker.subscribe_many(asked)]
    >>> posts = [nc.Message("m1", 13.4, 52.501, "Smoke!", ts="2026-05-01T12:00Z")]
    >>> heard.append(broker.publish(posts))
    >>> nc.report(posts, asked, heard, title="May", space=broker.space, window=broker.window).title
    'May'
    """
    if space is not None and not is_a(space, Space):
        raise InvalidInput("space", space, "must be a Space or None")
    if window is not None and not is_a(window, Window):
        raise InvalidInput("window", window, "must be a Window or None")
    told = list(_told(updates))
    people = list(_people(subscriptions))
    shown = people[:MOST_SUBSCRIPTIONS]
    ids = {person["id"] for person in shown}
    lines = [update for part in told for update in _lines(part, ids)]
    accepted = [message_to_json(message) for message in _messages(messages)]
    heard = {line["message"] for line in lines}
    wanted = np.array([message["id"] in heard for message in accepted], dtype=bool)
    kept = [accepted[row] for row in share(wanted, MOST_MESSAGES).tolist()]
    ground = space or _WORLD
    return draw(
        title=title,
        bounds=bounds_around(kept, shown, ground),
        messages=kept,
        subscribers=shown,
        updates=lines,
        summary={
            "messages": counted(len(kept), len(accepted)),
            "subscriptions": counted(len(shown), len(people)),
            "updates": sum(map(len, told)),
        },
        metric=ground.metric,
        age=None if window is None else window.age,
        count=None if window is None or len(kept) < len(accepted) else window.count,
    )


def counted(n_shown: int, n_all: int) -> str:
    """How many there are, and how many of them are shown if not all."""
    return f"{n_all:,}" if n_shown == n_all else f"{n_shown:,} of {n_all:,}"


def _told(updates: Any) -> Iterator[Updates]:
    several = [updates] if is_a(updates, Updates) else updates
    if not is_a(several, Iterable) or is_a(several, str | bytes | Mapping):
        raise InvalidInput("updates", updates, "must be Updates, or several of them")
    for one in several:
        if not is_a(one, Updates):
            raise InvalidInput("updates", one, "must be Updates, or several of them")
        yield one


def _lines(updates: Updates, ids: set[Any]) -> list[dict[str, Any]]:
    """The updates of these subscriptions as rows."""
    table = updates.to_arrow()
    if not ids or not table.num_rows:
        return []
    rows = table.column("subscription").to_pylist()
    chosen = np.array([row for row, id in enumerate(rows) if id in ids], dtype=np.int64)
    found: list[dict[str, Any]] = table.take(chosen).to_pylist()
    return found


def _messages(source: Any) -> Iterator[Message]:
    for row in _rows("messages", source):
        try:
            yield as_message(row)
        except InvalidInput:
            continue


def _rows(field: str, source: Any) -> Iterator[Any]:
    for _, part in parts_of(field, source):
        table = as_table(field, part)
        yield from rows_of(field, part) if table is None else rows_with_times(field, table)


def _people(source: Any) -> Iterable[dict[str, Any]]:
    """Who asked what, since when, where they went and until when; in the order of their ids' first subscription."""
    found: dict[Any, dict[str, Any]] = {}
    for row in _rows("subscriptions", source):
        try:
            event = _event(row)
        except InvalidInput:
            continue
        if isinstance(event, Subscribe):
            asked = {**subscription_to_json(event.subscription), "ts": event.ts, "moves": []}
            found.setdefault(event.subscription.id, asked)
        elif isinstance(event, Move) and event.id in found:
            found[event.id]["moves"].append(_goal(event))
        elif isinstance(event, Unsubscribe) and event.id in found:
            found[event.id].setdefault("until", event.ts)
    return found.values()


def _event(row: Any) -> Event:
    if isinstance(row, Move | Publish | Subscribe | Unsubscribe):
        return row
    if isinstance(row, Mapping) and row.get("event") is not None:
        return event_from_json(row)
    return Subscribe(as_subscription(row), None)


def _goal(move: Move) -> dict[str, Any]:
    place = {"lon": move.lon, "lat": move.lat} if move.region is None else {"region": region_to_json(move.region)}
    return {"ts": move.ts, **place}
