"""A day of posts in the invented city: what people write, where and when, from a seed."""

from __future__ import annotations

import itertools
import re
from math import cos, pi, radians, sin
from typing import Any, NamedTuple

import numpy as np

from nearcast.workload.city import map as city_map
from nearcast.workload.city import words as city_words
from nearcast.workload.city.map import Place, Venue

DAY_START = 1_715_817_600_000  # Thursday 16 May 2024, midnight
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
FIRST_HOUR, LAST_HOUR = 6, 24

SLOT = re.compile(r"\{(\w+)\}")


class Draft(NamedTuple):
    """A post before it has an id."""

    ts: int
    place: Place
    text: str
    expires: int | None
    fields: dict[str, Any]


class Writer:
    """Fills templates; every choice comes from one generator, so that a seed gives one day."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._price: int | None = None  # that the post at hand names
        weights = np.array([hood[3] for hood in city_map.HOODS.values()], float)
        self._hoods = list(city_map.HOODS)
        self._hood_weights = weights / weights.sum()
        self._venues = {
            kind: [venue for venue in city_map.VENUES if venue.kind == kind]
            for kind in {venue.kind for venue in city_map.VENUES}
        }

    def everyday(self, n: int) -> list[Draft]:
        """`n` posts about everyday things, each at an hour when people write about them."""
        rng, topics = self._rng, city_words.TOPICS
        share = np.array([topic.share for topic in topics], float)
        drafts = []
        for choice in rng.choice(len(topics), n, p=share / share.sum()):
            topic = topics[choice]
            hours = np.array(topic.hours, float)
            hour = FIRST_HOUR + int(rng.choice(hours.size, p=hours / hours.sum()))
            ts = DAY_START + hour * HOUR_MS + int(rng.integers(0, HOUR_MS))
            drafts.append(self._post(topic, ts))
        return drafts

    def stories(self, n: int) -> list[Draft]:
        """About `n` posts that tell the day's events, each along its own hours and way through the city."""
        rng, stories = self._rng, city_words.STORIES
        total = sum(story.share for story in stories)
        drafts = []
        for story in stories:
            size = max(len(story.lines), round(n * story.share / total))
            for number in range(size):
                part = (number + float(rng.random())) / size
                ts = DAY_START + int((story.start + part * (story.end - story.start)) * HOUR_MS)
                spot = along(tuple(city_map.at(x, y) for x, y in story.way), part)
                line = story.lines[min(int(part * len(story.lines)), len(story.lines) - 1)]
                text = self._fill(self._told(story, self._one_of(line)), None, hood_of(spot), street_of(spot))
                expires = ts + int(rng.integers(60, 180)) * MINUTE_MS if story.expires else None
                drafts.append(Draft(ts, self._near(spot, story.blur_km), text, expires, {"category": "news"}))
        return drafts

    def _post(self, topic: city_words.Topic, ts: int) -> Draft:
        rng = self._rng
        self._price = None
        venue: Venue | None = None
        kind = self._one_of(topic.place.split("|"))
        if kind == "street":
            way = city_map.STREETS[self._one_of(list(city_map.STREETS))]
            spot = self._near(along(way, float(rng.random())), 0.02)
            hood = hood_of(spot)
        elif kind == "park":
            points = city_map.PARKS[self._one_of(list(city_map.PARKS))]
            middle = Place(sum(p.lon for p in points) / len(points), sum(p.lat for p in points) / len(points))
            spot, hood = self._near(middle, 0.3), hood_of(middle)
        elif kind == "hood":
            hood = str(rng.choice(self._hoods, p=self._hood_weights))
            x, y, radius, _ = city_map.HOODS[hood]
            spot = self._near(city_map.at(x, y), radius)
        else:
            venue = self._one_of(self._venues[kind])
            spot, hood = self._near(venue.place, 0.05), venue.hood
        text = self._fill(self._one_of(topic.lines), venue, hood, street_of(spot))
        if topic.tails and rng.random() < 0.3:
            tail = self._one_of(topic.tails)
            join = " " if tail.startswith("#") or text[-1] in "?!." else ". "
            text += join + self._fill(tail, venue, hood, street_of(spot))
        expires = None
        if topic.minutes and rng.random() < 0.7:
            expires = ts + int(rng.integers(topic.minutes // 2, topic.minutes + 1)) * MINUTE_MS
        fields: dict[str, Any] = {"category": topic.category, "hood": hood}
        if self._price is not None:
            fields["price"] = self._price
        return Draft(ts, spot, text, expires, fields)

    def _told(self, story: city_words.Story, line: str) -> str:
        if self._rng.random() < 0.35:
            line = f"{self._one_of(story.leads)} {line}"
        if self._rng.random() < 0.35:
            line += (" " if line[-1] in "?!." else ". ") + self._one_of(story.asides)
        return line

    def _fill(self, line: str, venue: Venue | None, hood: str, street: str) -> str:
        used: set[str] = set()

        def fill(slot: re.Match[str]) -> str:
            name = slot.group(1)
            if name == "hood":
                return hood
            if name == "street":
                return street
            if name == "n":
                return str(int(self._rng.integers(2, 30)))
            if name == "price":
                self._price = int(self._rng.integers(1, 40)) * 5
                return str(self._price)
            if name == "venue" and venue is not None:
                return venue.name
            word: str = self._one_of([choice for choice in city_words.SLOTS[name] if choice not in used])
            used.add(word)
            return word

        previous = ""
        while previous != line:
            previous, line = line, SLOT.sub(fill, line)
        return line[:1].upper() + line[1:]

    def _near(self, spot: Place, reach_km: float) -> Place:
        """A place within reach of `spot`, more often close to it."""
        turn, reach = self._rng.random() * 2 * pi, self._rng.random() * reach_km
        lat = spot.lat + reach * sin(turn) / 111.195
        lon = spot.lon + reach * cos(turn) / (111.195 * cos(radians(spot.lat)))
        return Place(round(lon, 5), round(lat, 5))

    def _one_of(self, choices: Any) -> Any:
        return choices[int(self._rng.integers(0, len(choices)))]


def along(way: tuple[Place, ...], part: float) -> Place:
    """The place after `part` (0 to 1) of the way."""
    steps = [((b.lon - a.lon) ** 2 + (b.lat - a.lat) ** 2) ** 0.5 for a, b in itertools.pairwise(way)]
    left = part * sum(steps)
    for start, end, step in zip(way, way[1:], steps, strict=False):
        if left <= step and step > 0:
            share = left / step
            return Place(
                round(start.lon + share * (end.lon - start.lon), 5), round(start.lat + share * (end.lat - start.lat), 5)
            )
        left -= step
    return way[-1]


def hood_of(spot: Place) -> str:
    """The neighbourhood whose middle is closest."""
    return min(city_map.HOODS, key=lambda name: _apart(spot, city_map.at(*city_map.HOODS[name][:2])))


def street_of(spot: Place) -> str:
    """The street that passes closest, judged at points along it."""
    return min(_STREET_POINTS, key=lambda pair: _apart(spot, pair[1]))[0]


def _apart(a: Place, b: Place) -> float:
    return (0.75 * (a.lon - b.lon)) ** 2 + (a.lat - b.lat) ** 2


_STREET_POINTS = [(name, along(way, part / 24)) for name, way in city_map.STREETS.items() for part in range(25)]
