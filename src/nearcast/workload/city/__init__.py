"""The demo's sample: a seeded day in an invented city, written as two files of JSON lines.

`messages.jsonl` holds the posts in time order, `events.jsonl` who subscribes, moves and leaves, where the tram is, and
which posts are withdrawn. A few lines of each are broken on purpose, so that a run has something to reject.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from nearcast.errors import InvalidInput
from nearcast.workload.city import changes as city_changes
from nearcast.workload.city import people as city_people
from nearcast.workload.city import posts as city_posts
from nearcast.workload.city.changes import TRAM
from nearcast.workload.city.map import BOUNDS, METRIC, NAME, features, space
from nearcast.workload.city.people import PEOPLE, Person
from nearcast.workload.schema import generator

__all__ = ["BOUNDS", "METRIC", "NAME", "PEOPLE", "SEED", "Person", "Sample", "features", "sample", "space"]
__all__ += ["TRAM", "versions", "write_sample"]

SEED = 7
STORY_SHARE = 0.12  # of the posts tell of the day's events
_POSTS, _EVENTS, _CHANGES = 8, 9, 10  # what a seed is used for


class Sample(NamedTuple):
    """Where the two files are, and how many of their lines are broken on purpose."""

    messages: Path
    events: Path
    n_bad_messages: int
    n_bad_events: int


def sample(seed: int = SEED, n_messages: int = 4_000, n_background: int = 300) -> tuple[list[Any], list[Any]]:
    """The valid posts and events of the day, in time order and in the JSON form."""
    if n_messages < 1:
        raise InvalidInput("n_messages", n_messages, "must be >= 1")
    writer = city_posts.Writer(generator(seed, _POSTS))
    stories = writer.stories(round(n_messages * STORY_SHARE)) if n_messages >= 500 else []
    drafts = sorted([*stories, *writer.everyday(max(n_messages - len(stories), 0))], key=lambda draft: draft.ts)
    posts = []
    for number, draft in enumerate(drafts[:n_messages], 1):
        post: dict[str, Any] = {
            "id": number,
            "lon": draft.place.lon,
            "lat": draft.place.lat,
            "text": draft.text,
            "ts": draft.ts,
        }
        post["fields"] = draft.fields
        if draft.expires is not None:
            post["expires"] = draft.expires
        posts.append(post)
    changes = city_changes.changes(generator(seed, _CHANGES), posts)
    events = [*city_people.events(generator(seed, _EVENTS), n_background), *changes]
    return posts, sorted(events, key=lambda event: event["ts"])


def versions(posts: list[Any], events: list[Any]) -> list[Any]:
    """All messages of the day in time order, every version of what is updated too; `until` ends what is withdrawn."""
    gone = {event["id"]: event["ts"] for event in events if event["event"] == "retract"}
    made = [{**post, "until": gone[post["id"]]} if post["id"] in gone else post for post in posts]
    made += [{name: event[name] for name in event if name != "event"} for event in events if event["event"] == "update"]
    return sorted(made, key=lambda message: message["ts"])


def write_sample(folder: str | os.PathLike[str], seed: int = SEED, n_messages: int = 4_000) -> Sample:
    """Write ``messages.jsonl`` and ``events.jsonl`` into `folder`, which is made if it is not there."""
    posts, events = sample(seed, n_messages)
    bad_posts = _bad_posts(posts)
    lines = [json.dumps(post, ensure_ascii=False) for post in posts]
    for line in bad_posts:
        lines.insert(max(len(lines) * 2 // 3 - 7 * len(line), 0), line)
    bad_events = city_people.bad_events()
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    made = Sample(target / "messages.jsonl", target / "events.jsonl", len(bad_posts), len(bad_events))
    _write(made.messages, lines)
    everything = sorted([*events, *bad_events], key=lambda event: event["ts"])
    _write(made.events, (json.dumps(event, ensure_ascii=False) for event in everything))
    return made


def _bad_posts(posts: list[Any]) -> list[str]:
    """Lines that are no valid message, each for another reason."""
    like = posts[len(posts) // 2]
    number = len(posts) + 1
    return [
        json.dumps({**like, "id": number, "lat": None}),
        json.dumps({**like, "id": number + 1, "lat": 95.0}),
        json.dumps({**like, "id": number + 2, "ts": "around noon"}),
        json.dumps({key: value for key, value in {**like, "id": number + 3}.items() if key != "text"}),
        json.dumps({**like, "id": number + 4, "text": "cut off"})[:-9],
    ]


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in lines)
