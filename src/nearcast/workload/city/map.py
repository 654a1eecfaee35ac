"""The invented city of the demo: Brindlehaven, its coast, river, parks, streets, neighbourhoods and venues.

Drawn in kilometres from the south-west corner and turned into degrees once, here. The city lies in the open ocean, so
that nobody mistakes it for a real one.
"""

from __future__ import annotations

from math import cos, radians
from typing import Any, NamedTuple

from nearcast.space.space import Space
from nearcast.workload.schema import Bounds

NAME = "Brindlehaven"
WEST, SOUTH = -30.20, 41.40
WIDTH_KM, HEIGHT_KM = 13.0, 10.0
_KM_LAT = 111.195
_KM_LON = _KM_LAT * cos(radians(SOUTH + HEIGHT_KM / 2 / _KM_LAT))


class Place(NamedTuple):
    """A point in degrees, rounded to about a metre."""

    lon: float
    lat: float


class Venue(NamedTuple):
    """A place with a name that posts are about."""

    name: str
    kind: str
    hood: str
    place: Place


def at(x_km: float, y_km: float) -> Place:
    """Kilometres east and north of the corner, in degrees."""
    return Place(round(WEST + x_km / _KM_LON, 5), round(SOUTH + y_km / _KM_LAT, 5))


def path(*points: tuple[float, float]) -> tuple[Place, ...]:
    """A line through points given in kilometres."""
    return tuple(at(x, y) for x, y in points)


BOUNDS: Bounds = (*at(0, 0), *at(WIDTH_KM, HEIGHT_KM))
METRIC = "haversine"

BAY = path(
    *((0, 1.6), (1.2, 1.25), (2.5, 1.4), (3.4, 1.95), (4.2, 2.1), (5.4, 1.55), (6.3, 2.25), (6.9, 2.2), (8, 1.7)),
    *((9.6, 2.15), (10.4, 1.7), (11.2, 1.6), (12.2, 2.05), (13, 2.3), (13, 0), (0, 0)),
)
RIVER = path((5.2, 10), (5.5, 8.7), (4.95, 7.3), (5.6, 6.0), (6.4, 4.9), (6.2, 3.5), (6.6, 2.2))
PARKS = {
    "Lantern Park": path((7.7, 5.1), (8.9, 5.0), (9.2, 5.9), (8.7, 6.5), (7.8, 6.3)),
    "Foxglove Common": path((10.9, 8.3), (12.1, 8.5), (12.4, 9.4), (11.1, 9.5)),
    "Weir Gardens": path((3.9, 5.7), (4.9, 5.6), (4.8, 6.3), (4.0, 6.4)),
}
STREETS = {
    "Quay Road": path(
        (0.8, 1.9), (2.6, 1.9), (3.6, 2.35), (4.3, 2.5), (5.4, 2.1), (6.3, 2.7), (8, 2.2), (9.6, 2.6), (11.4, 2.1)
    ),
    "Lantern Avenue": path((1.4, 4.4), (2.4, 4.2), (4.1, 4.3), (6.1, 4.1), (7.4, 4.5), (9.6, 4.6), (12.0, 4.2)),
    "Wendside": path((6.3, 2.7), (5.9, 3.6), (6.05, 4.8), (5.2, 6.0), (4.6, 7.3), (5.15, 8.7), (4.9, 9.7)),
    "Orchard Ring": path(
        *((3.9, 5.3), (4.3, 6.9), (5.7, 7.9), (7.4, 7.7), (8.7, 7.2), (9.8, 6.0), (9.6, 4.6), (8.7, 3.4)),
        *((6.9, 3.0), (5.2, 3.2), (4.2, 4.0), (3.9, 5.3)),
    ),
    "Foundry Street": path((3.0, 2.1), (3.5, 3.5), (4.1, 4.3), (3.9, 5.3), (3.5, 6.6), (3.5, 8.9)),
    "Bellman Hill": path((7.4, 4.5), (7.5, 6.2), (8.7, 7.2), (10.4, 7.8), (12.3, 8.1)),
    "Glass Row": path((9.6, 2.6), (9.6, 4.6), (9.8, 6.0), (10.4, 7.8), (10.2, 9.4)),
    "Tanner Lane": path((2.6, 1.9), (2.2, 3.1), (2.4, 4.2), (1.6, 6.0), (1.9, 7.7)),
    "North Causeway": path((0.4, 7.5), (1.9, 7.7), (3.5, 7.8), (5.0, 7.6), (6.4, 7.5), (8.7, 7.2)),
    "Kestrel Street": path((7.4, 4.5), (7.2, 3.6), (6.9, 3.0), (7.6, 2.4)),
    "Easter Mile": path((9.6, 2.6), (11.0, 3.3), (12.0, 4.2), (12.2, 6.2), (10.4, 7.8)),
}
# name -> middle, radius in km, how much is posted there
HOODS = {
    "Old Docks": (4.7, 2.75, 0.55, 9),
    "Cooper's Wharf": (7.7, 2.7, 0.55, 9),
    "Saltgate": (5.7, 3.75, 0.5, 13),
    "Lantern Quarter": (7.5, 4.2, 0.6, 14),
    "Mill End": (4.4, 5.0, 0.65, 8),
    "Larkfield": (2.2, 3.6, 0.8, 7),
    "Northbank": (6.5, 7.4, 0.75, 8),
    "Hazelmoor": (3.1, 7.9, 0.8, 6),
    "Saint Orrin": (8.5, 7.6, 0.6, 7),
    "Foxglove Hill": (10.7, 7.6, 0.8, 5),
    "Glasshouse": (9.8, 4.4, 0.65, 9),
    "Eastering": (11.6, 3.7, 0.8, 5),
}
_VENUES = {
    "Old Docks": "eat:Noodle Anchor,eat:The Salted Plaice,cafe:Bollard Coffee,music:The Rope Shed,market:Dock Market,"
    "shop:Second Tide Bikes",
    "Cooper's Wharf": "eat:Barrel & Bowl Ramen,eat:Stave Pizza,bar:The Hoop and Stave,music:Warehouse Nine,"
    "shop:Cooper's Antiques,school:Wharf Primary",
    "Saltgate": "eat:Saltgate Sushi,eat:Gull & Pepper,cafe:Morning Tram,bakery:Marrow & Rye,shop:Penny Records,"
    "market:Saltgate Hall,school:Saltgate College",
    "Lantern Quarter": "eat:Ramen Kanto,eat:Little Ember,bar:The Wick,music:Lamplighter Hall,music:Blue Stair,"
    "cafe:Paper Lantern,shop:Nightingale Books",
    "Mill End": "eat:Millrace Curry,bakery:Green Crumb,cafe:The Flour Room,shop:Spindle Vintage,sport:Mill End Baths",
    "Larkfield": "eat:Tanner's Table,cafe:Lark & Kettle,sport:Larkfield Ground,shop:Plum Street Toys,"
    "school:Larkfield School",
    "Northbank": "eat:Wend Dumplings,bar:The Ferryman,music:North Bank Social,market:Northbank Market,"
    "cafe:Towpath Coffee",
    "Hazelmoor": "eat:The Hazel Oven,bakery:Moor Loaf,school:Hazel School,sport:Moor Courts,"
    "shop:Causeway Garden Centre",
    "Saint Orrin": "eat:Orrin Noodle House,cafe:Cloister Coffee,music:Saint Orrin Church,shop:Bell Hill Cycles,"
    "school:Orrin Academy",
    "Foxglove Hill": "eat:Hilltop Tandoor,cafe:Foxglove Tea Room,sport:Foxglove Climbing,shop:High Shelf Books",
    "Glasshouse": "eat:Furnace Grill,eat:Udon Glass,bar:The Kiln,bakery:Vegan Dough Co,music:Glasshouse Stage,"
    "market:Glass Row Flea",
    "Eastering": "eat:Mile End Tacos,cafe:East Bean,sport:Eastering Arena,school:Mile Primary,shop:Tideline Outlet",
}


def _venues() -> tuple[Venue, ...]:
    """Every venue, spread around the middle of its neighbourhood on a spiral that leaves no two together."""
    made = []
    for hood, listed in _VENUES.items():
        x, y, radius, _ = HOODS[hood]
        entries = listed.split(",")
        for number, entry in enumerate(entries):
            kind, name = entry.split(":")
            turn = 2.4 * number + x
            reach = radius * (0.35 + 0.55 * number / len(entries))
            made.append(Venue(name, kind, hood, at(x + reach * cos(turn), y + reach * cos(turn - 1.5708))))
    return tuple(made)


VENUES = _venues()


def space() -> Space:
    """The city as the broker takes it."""
    return Space(bounds=BOUNDS, metric=METRIC)


def features() -> list[dict[str, Any]]:
    """What a map draws beneath the posts: water, parks, streets and names, each with its points."""
    drawn: list[dict[str, Any]] = [
        {"type": "water", "points": list(BAY)},
        {"type": "river", "points": list(RIVER), "name": "The Wend"},
    ]
    drawn += [{"type": "park", "name": name, "points": list(points)} for name, points in PARKS.items()]
    drawn += [{"type": "street", "name": name, "points": list(points)} for name, points in STREETS.items()]
    drawn += [{"type": "hood", "name": name, "points": [at(x, y)]} for name, (x, y, _, _) in HOODS.items()]
    return drawn
