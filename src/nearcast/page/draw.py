"""Messages, subscribers and updates in the JSON form become a `Map`: one self-contained page of HTML."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from itertools import pairwise
from typing import Any

from nearcast.page.map import Map

Json = Mapping[str, Any]

_STEPS = 16_383  # places are embedded as whole steps of the bounds: 1 m in a city, a few characters each
_SLOT = "__DATA__"
_TITLE = "__TITLE__"


def draw(
    *,
    title: str,
    bounds: Sequence[float],
    messages: Iterable[Json],
    subscribers: Iterable[Json],
    updates: Iterable[Json],
    summary: Mapping[str, Any],
    features: Iterable[Json] = (),
    metric: str = "haversine",
    age: float | None = None,
    count: int | None = None,
    still: bool = False,
) -> Map:
    """The map of a run, to replay; or, if it is `still`, of a moment.

    Parameters
    ----------
    bounds
        ``(min_lon, min_lat, max_lon, max_lat)`` of the map.
    messages
        The accepted messages in the JSON form, in the order of arrival; again under its id whenever one was updated,
        and with ``until``, a time, if it was withdrawn.
    subscribers
        Those to tell about: the JSON form of each subscription, and optionally ``name``, ``story``, ``ts`` (when it was
        made), ``until`` (when it ended) and ``moves`` (``ts`` with ``lon, lat`` or ``region``). See `followers`.
    updates
        In the JSON form and in order; those of other subscribers are left out.
    summary
        What the page shows at its top: a few labels with their values.
    features
        What to draw beneath: ``type`` (water, river, park, street, hood), ``points``, ``name``.
    age, count
        The window of the run, which tells when messages fade.
    still
        All messages are live, and the updates say what results hold now.
    """
    box = [float(side) for side in bounds]
    people = [dict(subscriber) for subscriber in subscribers]
    kept = list(messages)
    rows_of: dict[Any, list[int]] = {}
    for row, message in enumerate(kept):
        rows_of.setdefault(message["id"], []).append(row)
    data = {
        "title": title,
        "bounds": box,
        "steps": _STEPS,
        "metric": metric,
        "age": None if age is None else round(age * 1_000),
        "count": count,
        "still": still,
        "summary": [[label, _plain(value)] for label, value in summary.items()],
        "features": [
            {"t": item["type"], "n": item.get("name", ""), "p": [_steps(box, *point) for point in item["points"]]}
            for item in features
        ],
        "people": people,
        "messages": _columns(box, kept, rows_of),
        "updates": _by_person(people, updates, kept, rows_of),
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    page = resources.files("nearcast.page").joinpath("page.html").read_text(encoding="utf-8")
    before, after = page.replace(_TITLE, _escaped(title)).rsplit(_SLOT, 1)
    # Inside a script element only these two would be read as markup; escaped, the JSON stays the same.
    return Map(title, before + text.replace("</", "\\u003c/").replace("<!--", "\\u003c!--") + after)


def followers(events: Iterable[Json], named: Mapping[str | int, tuple[str, str]]) -> list[dict[str, Any]]:
    """What `draw` tells of the subscribers in `named` (id to name and story), gathered from event lines.

    Of several subscriptions under one id the first counts; lines of others, and what makes no sense, are passed over.
    """
    found: dict[Any, dict[str, Any]] = {}
    for event in events:
        key: Any = event.get("id")
        if key not in named:
            continue
        does = event.get("event", "subscribe")
        if does == "subscribe" and key not in found:
            fields = {name: value for name, value in event.items() if name != "event"}
            name, story = named[key]
            found[key] = {**fields, "name": name, "story": story, "moves": []}
        elif does == "move" and key in found:
            found[key]["moves"].append({name: event[name] for name in ("ts", "lon", "lat", "region") if name in event})
        elif does == "unsubscribe" and key in found:
            found[key].setdefault("until", event.get("ts"))
    return [found[key] for key in named if key in found]


def _columns(box: list[float], messages: list[Json], rows_of: dict[Any, list[int]]) -> dict[str, Any]:
    """Messages as columns, numbers as differences: a third of the size of a list of objects."""
    following = {row: after for rows in rows_of.values() for row, after in pairwise(rows)}
    times = [message.get("ts") or 0 for message in messages]
    places = [_steps(box, message["lon"], message["lat"]) for message in messages]
    ids = [message["id"] for message in messages]
    numbered = all(isinstance(key, int) for key in ids)
    return {
        "ids": _differences(ids) if numbered else ids,
        "numbered": numbered,
        "ts": _differences(times),
        "x": [place[0] for place in places],
        "y": [place[1] for place in places],
        "text": [_said(message) for message in messages],
        "expires": {row: end for row, message in enumerate(messages) if (end := _end(message)) is not None},
        "next": following,
    }


def _end(message: Json) -> Any:
    """When a message ends by itself or is withdrawn."""
    return min((end for end in (message.get("expires"), message.get("until")) if end is not None), default=None)


def _by_person(
    people: list[dict[str, Any]], updates: Iterable[Json], messages: list[Json], rows_of: dict[Any, list[int]]
) -> list[list[Any]]:
    """For each person the updates in order: time, row of the message, 1 or -1, score; what leaves as it entered."""
    place_of = {person["id"]: place for place, person in enumerate(people)}
    lists: list[list[Any]] = [[] for _ in people]
    held: dict[tuple[int, Any], int] = {}
    for update in updates:
        place, rows = place_of.get(update["subscription"]), rows_of.get(update["message"])
        if place is None or rows is None:
            continue
        there = [row for row in rows if (messages[row].get("ts") or 0) <= update["ts"]]
        row = there[-1] if there else rows[0]
        if update["sign"] == "+":
            held[place, update["message"]] = row
        else:
            row = held.pop((place, update["message"]), row)
        score = update.get("score")
        if score is not None:
            score = round(score, 1) if score >= 10 else round(score, 3)
        lists[place].append([update["ts"], row, 1 if update["sign"] == "+" else -1, score])
    return [_columnar(rows) for rows in lists]


def _columnar(rows: list[list[Any]]) -> list[Any]:
    return [_differences([row[0] for row in rows]), *([row[at] for row in rows] for at in (1, 2, 3))]


def _differences(values: list[int]) -> list[int]:
    return [value - before for value, before in zip(values, [0, *values], strict=False)]


def _steps(box: list[float], lon: float, lat: float) -> list[int]:
    """A place in whole steps from the north-west corner."""
    return [
        round((lon - box[0]) / (box[2] - box[0]) * _STEPS),
        round((box[3] - lat) / (box[3] - box[1]) * _STEPS),
    ]


def _said(message: Json) -> str:
    text = message.get("text")
    if text is not None:
        return str(text)
    keywords = message.get("keywords") or ""
    return keywords if isinstance(keywords, str) else " ".join(keywords)


def _plain(value: Any) -> str:
    return f"{value:,}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
