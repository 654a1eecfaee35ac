"""The demo of `nearcast serve`: a day in the invented city, played live, again and again."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from typing import Any

from nearcast.server.intake import LINES, events
from nearcast.server.service import Service
from nearcast.workload import city

_MESSAGES = 4_000  # of a day
_PER_SECOND = 20  # posts
_DAY_MS = 24 * 3_600_000
_AGE_S = 3 * 3_600.0


def settings(data: str, given: dict[str, Any]) -> dict[str, Any]:
    """What the demo needs, where nothing else was asked for."""
    space = city.space()
    known = {"data": data, "clock": "event", "space": tuple(space.bounds), "metric": space.metric, "window_age": _AGE_S}
    return {**given, **{name: value for name, value in known.items() if given.get(name) is None}}


def days(clock: int | None) -> Iterator[dict[str, Any]]:
    """Posts and events of day after day, from the one after `clock` on; every day has its own ids of posts."""
    posts, happening = city.sample(n_messages=_MESSAGES)
    ordered = sorted([*happening, *posts], key=lambda each: int(each["ts"]))
    first = 0 if clock is None else (clock - ordered[0]["ts"]) // _DAY_MS + 1
    for day in itertools.count(first):
        for each in ordered:
            moved = {**each, "ts": each["ts"] + day * _DAY_MS}
            if each.get("event", "retract") == "retract":
                moved["id"] = each["id"] + day * _MESSAGES
            if each.get("expires") is not None:
                moved["expires"] = each["expires"] + day * _DAY_MS
            yield moved


async def play(service: Service) -> None:
    """Play until the server ends; after a restart the next day begins."""
    for each in days(service.backend.state.bodies.messages.clock):
        taken = events(json.dumps(each).encode(), LINES[0], 1)
        for part in taken.parts:
            if not part.is_messages:
                for line in part.content:
                    if line["event"] == "subscribe":
                        line["replace"] = True
        await service.submit(taken.parts, taken.rejects)
        if any(part.is_messages for part in taken.parts):  # all subscribe at once, so that the map moves from the start
            await asyncio.sleep(1 / _PER_SECOND)
