"""What changes in the invented city: a tram that says where it is, and posts that their writers take back."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.workload.city import map as city_map
from nearcast.workload.city.posts import DAY_START, HOUR_MS, MINUTE_MS, along, hood_of

Event = dict[str, Any]
TRAM = -12  # its id; those of posts are positive
_LINE = "Wendside"  # from the harbour up the river
_ENDS = ("Hazelmoor", "the harbour")  # where it goes, there and back
_FIRST, _LAST = 6.0, 23.5  # hours
_TRIP_MINUTES, _EVERY_MINUTES = 40, 4
_TAKEN_SHARE = 0.5  # of the posts about free places to park


def changes(rng: np.random.Generator, posts: list[Any]) -> list[Event]:
    """Every update and retraction of the day; each names the tram, or a post that is live then."""
    return [*_tram(rng), *_taken_back(rng, posts)]


def _tram(rng: np.random.Generator) -> list[Event]:
    """Where tram 12 is, every few minutes: always the same message, at another place."""
    made, late = [], 0
    for step in range(int((_LAST - _FIRST) * 60 / _EVERY_MINUTES)):
        minute = step * _EVERY_MINUTES
        trip, part = divmod(minute / _TRIP_MINUTES, 1.0)
        spot = along(city_map.STREETS[_LINE], part if trip % 2 == 0 else 1.0 - part)
        late = max(0, late + int(rng.integers(-3, 4)))
        said = "on time" if late < 2 else f"{late} minutes late"
        made.append(
            {
                "event": "update",
                "id": TRAM,
                "lon": spot.lon,
                "lat": spot.lat,
                "text": f"Tram 12 to {_ENDS[int(trip) % 2]} is in {hood_of(spot)}, {said}",
                "ts": DAY_START + int(_FIRST * HOUR_MS) + minute * MINUTE_MS,
                "fields": {"category": "tram", "hood": hood_of(spot), "late": late},
            }
        )
    return made


def _taken_back(rng: np.random.Generator, posts: list[Any]) -> list[Event]:
    """Places to park that somebody has taken: the post is withdrawn."""
    made: list[Event] = []
    for post in posts:
        if post["fields"]["category"] == "parking" and "free" in post["text"].lower() and rng.random() < _TAKEN_SHARE:
            ts = post["ts"] + int(rng.integers(3, 25)) * MINUTE_MS
            if ts < post.get("expires", ts + 1):
                made.append({"event": "retract", "id": post["id"], "ts": ts})
    return made
