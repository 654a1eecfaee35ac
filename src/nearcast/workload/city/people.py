"""Who follows the invented city: a dozen people with a name and a reason, and hundreds in the background."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast.workload.city import map as city_map
from nearcast.workload.city import words as city_words
from nearcast.workload.city.posts import DAY_START, HOUR_MS, MINUTE_MS, along, hood_of

Event = dict[str, Any]
OPENING_TS = DAY_START + 5 * HOUR_MS  # when the first subscriptions are made, an hour before the first post


class Person(NamedTuple):
    """A subscriber that the demo tells about."""

    id: str
    name: str
    story: str
    query: dict[str, Any]  # the JSON form of the subscription, without its id
    hour: float = 5.0  # when they subscribe


def _place(x_km: float, y_km: float) -> dict[str, float]:
    spot = city_map.at(x_km, y_km)
    return {"lon": spot.lon, "lat": spot.lat}


def _circle(x_km: float, y_km: float, radius_m: float) -> dict[str, Any]:
    return {"type": "Circle", "coordinates": list(city_map.at(x_km, y_km)), "radius": radius_m}


def _polygon(*points: tuple[float, float]) -> dict[str, Any]:
    ring = [list(place) for place in city_map.path(*points, points[0])]
    return {"type": "Polygon", "coordinates": [ring]}


PEOPLE = (
    Person(
        "mira",
        "Mira, newsroom",
        "Covers the harbour. Wants every word of fire or smoke from the waterfront, but not the drills.",
        {
            "kind": "within",
            "region": _polygon((3.6, 2.0), (5.2, 1.8), (6.4, 2.3), (8.4, 1.9), (9.0, 3.2), (6.6, 3.4), (4.0, 3.4)),
            "keywords": "(fire OR smoke OR evacuation) AND NOT drill",
        },
    ),
    Person(
        "tomas",
        "Tomas, courier",
        "Rides across town all day. Wants to know of blocked roads within 900 metres of wherever he is.",
        {
            "kind": "within",
            "region": _circle(0.8, 1.9, 900),
            "keywords": "closed OR crash OR standstill OR roadworks OR flood",
        },
    ),
    Person(
        "hazel-parents",
        "Hazel School parents",
        "The school run: buses, trams and roads around Hazelmoor that are late or shut.",
        {
            "kind": "within",
            "region": [*city_map.at(1.6, 6.6), *city_map.at(5.2, 9.2)],
            "keywords": "(bus OR tram OR road OR school) AND (late OR delayed OR closed OR lost)",
        },
    ),
    Person(
        "greta",
        "Greta",
        "Her terrier Biscuit ran off at breakfast. Any post that sounds like him, better if it is near home.",
        {
            "kind": "similar",
            **_place(3.0, 7.7),
            "keywords": "lost small brown terrier dog Biscuit red collar",
            "delta": 0.7,
            "tau": 0.5,
        },
    ),
    Person(
        "harbour-master",
        "The harbour master",
        "Watches the weather: short posts about storm, wind or flood at the harbour, not chatter that mentions them.",
        {
            "kind": "similar",
            **_place(6.3, 2.4),
            "keywords": "storm wind flood harbour",
            "delta": 0.6,
            "tau": 0.52,
            "measure": "cosine",
        },
    ),
    Person(
        "noor",
        "Noor",
        "Where to go tonight? The eight best posts for live jazz, words counting more than the way there. What was "
        "posted four hours ago counts half.",
        {
            "kind": "topk",
            **_place(7.4, 4.6),
            "keywords": "live jazz concert tonight",
            "k": 8,
            "alpha": 0.35,
            "decay": 14_400,
        },
    ),
    Person(
        "oskar",
        "Oskar",
        "Furnishing a flat in Mill End: the ten best sale posts up to 100, and no chair carried across town.",
        {
            "kind": "topk",
            **_place(4.4, 5.0),
            "keywords": "sale discount vintage chairs lamps",
            "k": 10,
            "alpha": 0.6,
            "where": "category = 'sale' AND NOT price > 100",
        },
    ),
    Person(
        "ines",
        "Inés",
        "Hungry in the Lantern Quarter: the five nearest mentions of ramen, noodles or udon.",
        {"kind": "nearest", **_place(7.6, 4.4), "keywords": "ramen noodles udon", "k": 5, "match": "any"},
    ),
    Person(
        "jonas",
        "Jonas",
        "Circling the block in Saltgate: the three nearest posts that say both free and parking; gone when taken.",
        {"kind": "nearest", **_place(5.7, 3.8), "keywords": "free parking", "k": 3, "match": "all"},
        hour=9.0,
    ),
    Person(
        "anouk",
        "Anouk, visiting",
        "Walks down Lantern Avenue and always wants the three nearest coffees, from cafés and bakeries alone.",
        {
            "kind": "nearest",
            **_place(2.4, 4.2),
            "keywords": "coffee espresso white",
            "k": 3,
            "match": "any",
            "where": "category = 'coffee'",
        },
        hour=8.5,
    ),
    Person(
        "pilar",
        "Pilar",
        "Looked for vegan breakfast until noon, found her place, and unsubscribed.",
        {"kind": "nearest", **_place(9.7, 4.5), "keywords": "vegan", "k": 4, "match": "any"},
    ),
    Person(
        "lena",
        "Lena, at the stop",
        "Waits for tram 12 in Mill End: told when it comes within 700 metres, and when it has left again.",
        {
            "kind": "within",
            "region": _circle(5.0, 6.4, 700),
            "keywords": '"tram 12"',
            "where": "category = 'tram' AND late < 30",
        },
    ),
    Person(
        "kofi",
        "Kofi, dealer",
        "Vintage things and antiques up to 60, anywhere west of the river; what is second hand and only used is not.",
        {
            "kind": "within",
            "region": [*city_map.at(0.0, 1.0), *city_map.at(6.2, 10.0)],
            "keywords": '(vint* OR antiq* OR "second hand") AND NOT "barely touched"',
            "where": "category = 'sale' AND NOT price > 60",
        },
    ),
    Person(
        "dockers",
        "Dockers fan club",
        "Tickets and scores, anywhere in the eastern half of the city.",
        {
            "kind": "within",
            "region": [*city_map.at(6.5, 2.0), *city_map.at(13.0, 10.0)],
            "keywords": "match OR tickets OR Dockers",
        },
    ),
)
UNSUBSCRIBED = {"pilar": 12.0}  # the hour at which they go
ROUTES = {
    # person -> street, hours between which they travel it, steps
    "tomas": ("Quay Road", 7.0, 12.0, 20),
    "anouk": ("Lantern Avenue", 9.0, 12.5, 14),
}


def events(rng: np.random.Generator, n_background: int = 300) -> list[Event]:
    """Every subscribe, move and unsubscribe of the day, in time order, all of them valid."""
    made: list[Event] = []
    for person in PEOPLE:
        ts = DAY_START + int(person.hour * HOUR_MS)
        made.append({"event": "subscribe", "ts": ts, "id": person.id, **person.query})
    for person_id, (street, start, end, n_steps) in ROUTES.items():
        made += _moves(person_id, street, start, end, n_steps)
    for person_id, hour in UNSUBSCRIBED.items():
        made.append({"event": "unsubscribe", "ts": DAY_START + int(hour * HOUR_MS), "id": person_id})
    made += _background(rng, n_background)
    return sorted(made, key=lambda event: event["ts"])


def _moves(person_id: str, street: str, start: float, end: float, n_steps: int) -> list[Event]:
    query = next(person.query for person in PEOPLE if person.id == person_id)
    made = []
    for step in range(1, n_steps + 1):
        spot = along(city_map.STREETS[street], step / n_steps)
        ts = DAY_START + int((start + (end - start) * step / n_steps) * HOUR_MS)
        event: Event = {"event": "move", "ts": ts, "id": person_id}
        if query["kind"] == "within":
            event["region"] = {**query["region"], "coordinates": list(spot)}
        else:
            event |= {"lon": spot.lon, "lat": spot.lat}
        made.append(event)
    return made


def _background(rng: np.random.Generator, n: int) -> list[Event]:
    """People without a story: a venue's neighbourhood and a few words that get posted there."""
    interests = [
        *city_words.SLOTS["dish"],
        *city_words.SLOTS["genre"],
        *city_words.SLOTS["goods"],
        *("crash", "closed", "tram", "bus", "coffee", "concert", "football", "lost cat", "power", "parking", "storm"),
    ]
    made = []
    for number in range(n):
        venue = city_map.VENUES[int(rng.integers(0, len(city_map.VENUES)))]
        words = sorted({interests[int(choice)] for choice in rng.integers(0, len(interests), rng.integers(1, 4))})
        event: Event = {"event": "subscribe", "ts": OPENING_TS + number * 1_000, "id": f"reader-{number + 1:03d}"}
        place = {"lon": venue.place.lon, "lat": venue.place.lat}
        kind = number % 5
        if kind < 2:
            radius = float(rng.integers(4, 25) * 100)
            region = {"type": "Circle", "coordinates": list(venue.place), "radius": radius}
            event |= {"kind": "within", "region": region, "keywords": " OR ".join(f"({word})" for word in words)}
        elif kind == 2:
            tau = round(float(rng.uniform(0.6, 0.9)), 2)
            event |= {"kind": "similar", **place, "keywords": " ".join(words), "delta": 0.6, "tau": tau}
        elif kind == 3:
            alpha = round(float(rng.random()), 2)
            k = int(rng.integers(3, 21))
            event |= {"kind": "topk", **place, "keywords": " ".join(words), "k": k, "alpha": alpha}
        else:
            k = int(rng.integers(1, 11))
            event |= {"kind": "nearest", **place, "keywords": " ".join(words), "k": k, "match": "any"}
        if rng.random() < 0.1:
            event["expires"] = DAY_START + int(rng.integers(10 * 60, 20 * 60)) * MINUTE_MS
        made.append(event)
    return made


def bad_events() -> list[Event]:
    """Events that cannot be honoured, each for another reason."""
    ts = OPENING_TS + HOUR_MS // 2
    hood = hood_of(city_map.at(5.7, 3.75))
    return [
        {
            "event": "subscribe",
            "ts": ts,
            "id": "no-words",
            "kind": "topk",
            **_place(5.7, 3.8),
            "keywords": "  ",
            "k": 5,
        },
        {"event": "subscribe", "ts": ts, "id": "k-zero", "kind": "nearest", **_place(5, 5), "keywords": hood, "k": 0},
        {
            "event": "subscribe",
            "ts": ts,
            "id": "dangling",
            "kind": "within",
            "region": [*city_map.at(1, 1), *city_map.at(2, 2)],
            "keywords": "fire AND (smoke OR",
        },
        {"event": "unsubscribe", "ts": ts, "id": "nobody-by-this-name"},
    ]
