"""Every definition of the design in plain Python: events go in, each subscriber's exact result and updates come out.

This is the judge, so it shares nothing with what it judges but the dataclasses of `nearcast.model`: words, weights,
distances, regions, expressions, scores, the clock and the window are all written here a second time, for reading and
not for speed. `Definitions` has the methods of `nearcast.Broker`; it takes one message at a time and a corpus where
the broker takes weights, and it raises `Refused` where the broker raises `InvalidInput`.

Rounding is the one thing two exact programs may differ in. A judged number is therefore a `Span`: the value, and the
lowest and highest that honest floating point could have made of it. `Entry` widens it by `TOLERANCE`, and says whether
the message surely belongs, or lies so near a threshold that it may fall either way.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from fractions import Fraction
from itertools import combinations, pairwise
from operator import attrgetter
from typing import NamedTuple

from nearcast.model.message import Message
from nearcast.model.query import Nearest, Query, Similar, TopK, Within
from nearcast.model.region import Box, Circle, MultiPolygon, Polygon
from nearcast.model.update import Update

Id = str | int
Corpus = Sequence[str | Sequence[str]]
Region = Box | Circle | Polygon | MultiPolygon
Predicate = Callable[[Collection[str]], bool]

TOLERANCE = 1e-9  # scores this near (relative) to a threshold or to each other may fall either way
ROUNDING = 1e-15  # relative error that a few float operations may leave
ANGLE_M = 1e-7  # metres: what rounding an angle to a double may move a place by
EARTH_RADIUS_M = 6_371_008.8
FOREVER = math.inf


class Refused(Exception):
    """The event cannot be honoured and has changed nothing."""


# ---------------------------------------------------------------------------------------------------------------- text


def fold(word: str) -> str:
    """Unicode NFKC, then case-folded, and both again until nothing changes."""
    folded = unicodedata.normalize("NFKC", word).casefold()
    return folded if folded == word else fold(folded)


def words_of(text: str) -> list[str]:
    """Folded, then split on everything that is neither a letter nor a digit."""
    return "".join(c if unicodedata.category(c)[0] in "LN" else " " for c in fold(text)).split()


def bag_of(text: str | Iterable[str]) -> Counter[str]:
    """The multiset of words of a text, or of a list of keywords (folded, never split)."""
    return Counter(words_of(text) if isinstance(text, str) else (fold(word) for word in text if fold(word)))


class Weights:
    """idf over a corpus; without one every word weighs 1."""

    def __init__(self, corpus: Corpus) -> None:
        self.n_texts = len(corpus)
        self.df = Counter(word for text in corpus for word in bag_of(text))

    def __call__(self, word: str) -> float:
        return math.log(1 + self.n_texts / (self.df[word] or 1)) if self.n_texts else 1.0

    def total(self, words: Iterable[str]) -> float:
        return math.fsum(self(word) for word in words)


def expression(text: str) -> Predicate:
    """What an expression over words says of a set of words; `Refused` if it is malformed."""
    tokens = re.findall(r"[()]|[^\s()]+", text)
    mentioned: set[str] = set()

    def peek() -> str | None:
        return tokens[0] if tokens else None

    def either() -> Predicate:
        sides = [both()]
        while peek() == "OR":
            tokens.pop(0)
            sides.append(both())
        return lambda words: any(side(words) for side in sides)

    def both() -> Predicate:
        sides = [negated()]
        while peek() not in (None, "OR", ")"):
            if peek() == "AND":
                tokens.pop(0)
            sides.append(negated())
        return lambda words: all(side(words) for side in sides)

    def negated() -> Predicate:
        if peek() != "NOT":
            return operand()
        tokens.pop(0)
        inner = negated()
        return lambda words: not inner(words)

    def operand() -> Predicate:
        token = tokens.pop(0) if tokens else None
        if token == "(":
            inner = either()
            if not tokens or tokens.pop(0) != ")":
                raise Refused("a parenthesis is not closed")
            return inner
        if token in (None, ")", "AND", "OR"):
            raise Refused("an operand is missing")
        needed = words_of(str(token))
        if not needed:
            raise Refused("an operand has no words")
        mentioned.update(needed)
        return lambda words: all(word in words for word in needed)

    holds = either()
    if tokens:
        raise Refused("something follows the expression")
    # A clause of the normal form without a positive word is one that a message without words satisfies, and no clause
    # is left when nothing at all satisfies the expression.
    if holds(()):
        raise Refused("a clause has no positive word")
    if not any(holds(some) for n in range(1, len(mentioned) + 1) for some in combinations(mentioned, n)):
        raise Refused("nothing satisfies the expression")
    return holds


def requirement(keywords: str | Sequence[str]) -> Predicate:
    """The keywords of a Within: an expression, or a list of which all are needed."""
    if isinstance(keywords, str):
        return expression(keywords)
    needed = bag_of(keywords).keys()
    if not needed:
        raise Refused("no keywords")
    return lambda words: all(word in words for word in needed)


# --------------------------------------------------------------------------------------------------------------- space


class Span(NamedTuple):
    """A number, and the lowest and highest that rounding may make of it."""

    value: float
    low: float
    high: float


def haversine_m(lon1: float, lat1: float, lon2: float, lat2: float) -> Span:
    """Metres over the sphere, asin form. Near the antipode that form loses half its digits, and the span shows it."""
    if (lon1, lat1) == (lon2, lat2):
        return Span(0.0, 0.0, 0.0)
    rise = math.sin(math.radians(lat2 - lat1) / 2) ** 2
    gap = math.remainder(lon2, 360) - math.remainder(
        lon1, 360
    )  # longitudes are periodic, and huge ones still have digits
    run = math.sin(math.radians(gap) / 2) ** 2
    h = rise + math.cos(math.radians(lat1)) * math.cos(math.radians(lat2)) * run
    exact, less, more = (
        2 * EARTH_RADIUS_M * math.asin(math.sqrt(min(1.0, h * f))) for f in (1, 1 - ROUNDING, 1 + ROUNDING)
    )
    return Span(exact, max(0.0, less - ANGLE_M), more + ANGLE_M)


def euclidean(x1: float, y1: float, x2: float, y2: float) -> Span:
    """Distance in plain coordinates."""
    exact = math.hypot(x2 - x1, y2 - y1)
    return Span(exact, exact * (1 - ROUNDING), exact * (1 + ROUNDING))


@dataclasses.dataclass(frozen=True)
class Ground:
    """The space that places lie in, as `nearcast.Space` takes it."""

    bounds: tuple[float, float, float, float]
    metric: str
    max_distance: float | None = None

    def distance(self, lon1: float, lat1: float, lon2: float, lat2: float) -> Span:
        return (haversine_m if self.metric == "haversine" else euclidean)(lon1, lat1, lon2, lat2)

    def ssim(self, distance: Span) -> Span:
        full = self.full_distance
        return Span(
            max(0.0, 1 - distance.value / full.value),
            max(0.0, 1 - distance.high / full.low),
            max(0.0, 1 - distance.low / full.high),
        )

    @functools.cached_property
    def full_distance(self) -> Span:
        """Where spatial similarity reaches 0."""
        given = self.max_distance
        return self.distance(*self.bounds) if given is None else Span(given, given, given)

    def check_places(self, places: Iterable[tuple[float, float]]) -> None:
        if self.metric == "haversine" and any(abs(lat) > 90 for _, lat in places):
            raise Refused("a latitude past the pole")

    def check_region(self, region: Region) -> None:
        if isinstance(region, Box):
            self.check_places([(region.min_lon, region.min_lat), (region.max_lon, region.max_lat)])
            if region.min_lon > region.max_lon and self.metric != "haversine":
                raise Refused("a box across the date line of a plane")
        elif isinstance(region, Circle):
            self.check_places([(region.lon, region.lat)])
        else:
            self.check_places([place for ring in rings_of(region) for place in ring])


def rings_of(polygon: Polygon | MultiPolygon) -> list[list[tuple[float, float]]]:
    """The outer ring and the holes, each closed; those of every polygon."""
    if isinstance(polygon, MultiPolygon):
        return [ring for part in polygon.polygons for ring in rings_of(part)]
    rings = [[(lon, lat) for lon, lat in ring] for ring in (polygon.points, *polygon.holes)]
    return [ring if ring[0] == ring[-1] else [*ring, ring[0]] for ring in rings]


def in_polygon(polygon: Polygon, lon: float, lat: float) -> bool:
    """Even-odd over all rings, each border inside; in rational numbers, so that a border is a border."""
    x, y, inside = Fraction(lon), Fraction(lat), False
    for ring in rings_of(polygon):
        for (lon1, lat1), (lon2, lat2) in pairwise(ring):
            x1, y1, x2, y2 = map(Fraction, (lon1, lat1, lon2, lat2))
            side = (x2 - x1) * (y - y1) - (x - x1) * (y2 - y1)
            if side == 0 and min(x1, x2) <= x <= max(x1, x2) and min(y1, y2) <= y <= max(y1, y2):
                return True
            if (y1 > y) != (y2 > y) and (side > 0) == (y2 > y1):
                inside = not inside
    return inside


def in_region(ground: Ground, region: Region, lon: float, lat: float) -> tuple[bool, bool]:
    """Is the place inside, and is that beyond the doubt of rounding?"""
    if isinstance(region, Box):
        if not region.min_lat <= lat <= region.max_lat:
            return False, True
        if region.min_lon <= region.max_lon:
            return region.min_lon <= lon <= region.max_lon, True
        return lon >= region.min_lon or lon <= region.max_lon, True
    if isinstance(region, Polygon):
        return in_polygon(region, lon, lat), True
    if isinstance(region, MultiPolygon):
        return any(in_polygon(polygon, lon, lat) for polygon in region.polygons), True
    away = ground.distance(region.lon, region.lat, lon, lat)
    doubt = away.low * (1 - TOLERANCE) <= region.radius < away.high * (1 + TOLERANCE)
    if doubt and ground.metric == "euclidean":
        squared = (Fraction(lon) - Fraction(region.lon)) ** 2 + (Fraction(lat) - Fraction(region.lat)) ** 2
        if squared == Fraction(region.radius) ** 2:
            return True, True
    return away.value <= region.radius, not doubt


# -------------------------------------------------------------------------------------------------------------- scores


class Arrival(NamedTuple):
    """A message that got a sequence."""

    sequence: int
    message: Message
    dies: float  # min(expires, ts + age)
    bag: Counter[str]


class Entry(NamedTuple):
    """What a query says of one message that belongs to its result, or may.

    `low` and `high` bound its merit, tolerance included: the score, or the distance negated, so that more is better.
    Entries with equal `tie` have equal scores in any arithmetic: between them the newer one surely stands first.
    """

    sequence: int
    message: Id
    score: float | None
    rank: tuple[float, int]  # sorts best first: merit negated, then newer first
    low: float
    high: float
    tie: Hashable
    belongs: bool = True
    sure: bool = True


def text_similarity(measure: str, ours: Collection[str], theirs: Collection[str], weights: Weights) -> float:
    """The five measures over distinct words: `ours` of the subscription, `theirs` of the message."""
    shared, union = set(ours) & set(theirs), set(ours) | set(theirs)
    if measure == "weighted":
        return weights.total(shared) / weights.total(ours)
    if measure == "overlap":
        return len(shared) / len(ours)
    if measure == "jaccard":
        return weights.total(shared) / weights.total(union)
    if measure == "dice":
        return 2 * len(shared) / (len(ours) + len(theirs))
    if measure == "cosine":
        return len(shared) / math.sqrt(len(ours) * len(theirs)) if theirs else 0.0
    raise Refused("no such measure")


def cosine(ours: Counter[str], theirs: Counter[str], weights: Weights) -> float:
    """The dot product of the two unit tf-idf vectors."""
    lengths = [math.sqrt(math.fsum((n * weights(word)) ** 2 for word, n in bag.items())) for bag in (ours, theirs)]
    dot = math.fsum(n * theirs[word] * weights(word) ** 2 for word, n in ours.items() if word in theirs)
    return dot / (lengths[0] * lengths[1])


class Question:
    """One query made ready: `ask` gives its entry for a message, or None."""

    def __init__(self, query: Query, ground: Ground, windowed: bool) -> None:
        self.query, self.ground = query, ground
        self.k = query.k if isinstance(query, TopK | Nearest) else None
        if isinstance(query, Within):
            ground.check_region(query.region)
            self.holds = requirement(query.keywords)
        else:
            ground.check_places([(query.lon, query.lat)])
            self.bag = bag_of(query.keywords)
            if not self.bag:
                raise Refused("no keywords")
        if isinstance(query, TopK) and not windowed:
            raise Refused("TopK without a window")

    def ask(self, arrival: Arrival, weights: Weights) -> Entry | None:
        query = self.query
        if isinstance(query, Within):
            return self._within(query, arrival)
        shared = arrival.bag.keys() & self.bag.keys()
        if isinstance(query, Similar):
            return self._similar(query, arrival, weights)
        if isinstance(query, TopK):
            return self._topk(query, arrival, weights) if shared else None
        wanted = len(shared) == len(self.bag) if query.match == "all" else bool(shared)
        return self._nearest(query, arrival) if wanted else None

    def _within(self, query: Within, arrival: Arrival) -> Entry | None:
        if not self.holds(arrival.bag):
            return None
        belongs, sure = in_region(self.ground, query.region, arrival.message.lon, arrival.message.lat)
        if not belongs and sure:
            return None
        return Entry(
            arrival.sequence, arrival.message.id, None, (0.0, -arrival.sequence), 0.0, 0.0, None, belongs, sure
        )

    def _similar(self, query: Similar, arrival: Arrival, weights: Weights) -> Entry | None:
        text = text_similarity(query.measure, self.bag.keys(), arrival.bag.keys(), weights)
        near = self.ground.ssim(self._distance(query, arrival))
        score, low, high = (query.delta * text + (1 - query.delta) * s for s in near)
        low, high = low * (1 - TOLERANCE), high * (1 + TOLERANCE)
        if high < query.tau:
            return None
        tie = (self._place(query, arrival), frozenset(arrival.bag))
        belongs, sure = score >= query.tau, low >= query.tau
        rank = (-score, -arrival.sequence)
        return Entry(arrival.sequence, arrival.message.id, score, rank, low, high, tie, belongs, sure)

    def _topk(self, query: TopK, arrival: Arrival, weights: Weights) -> Entry:
        text = cosine(self.bag, arrival.bag, weights)
        near = self.ground.ssim(self._distance(query, arrival))
        score, low, high = (query.alpha * s + (1 - query.alpha) * text for s in near)
        tie = (
            None if query.alpha == 0 or near.high == 0 else self._place(query, arrival),
            None if query.alpha == 1 else frozenset(arrival.bag.items()),
        )
        low, high = low * (1 - TOLERANCE), high * (1 + TOLERANCE)
        return Entry(arrival.sequence, arrival.message.id, score, (-score, -arrival.sequence), low, high, tie)

    def _nearest(self, query: Nearest, arrival: Arrival) -> Entry:
        away, near, far = self._distance(query, arrival)
        low, high = -far * (1 + TOLERANCE), -near * (1 - TOLERANCE)
        rank = (away, -arrival.sequence)
        return Entry(arrival.sequence, arrival.message.id, away, rank, low, high, self._place(query, arrival))

    def _distance(self, query: Similar | TopK | Nearest, arrival: Arrival) -> Span:
        return self.ground.distance(query.lon, query.lat, arrival.message.lon, arrival.message.lat)

    def _place(self, query: Similar | TopK | Nearest, arrival: Arrival) -> tuple[float, float]:
        """Equal for places whose distance from the query is the same sum of the same squares."""
        lon, lat = arrival.message.lon, arrival.message.lat
        if self.ground.metric == "haversine":
            return lon, lat
        across, up = sorted((abs(lon - query.lon), abs(lat - query.lat)))
        return across, up


# -------------------------------------------------------------------------------------------------------------- events


@dataclasses.dataclass(frozen=True)
class Lifetime:
    """How long messages live, as `nearcast.Window` takes it; ages in seconds."""

    count: int | None = None
    age: float | None = None
    max_ahead: float | None = None


@dataclasses.dataclass
class Standing:
    """A registered subscription: its question, and the entries of the messages that belong to it or may."""

    question: Question
    expires: int | None
    since: int  # messages up to this sequence never count
    entries: dict[int, Entry] = dataclasses.field(default_factory=dict)

    @property
    def notifies(self) -> bool:
        return self.question.k is None

    def result(self) -> list[Entry]:
        return sorted((e for e in self.entries.values() if e.belongs), key=attrgetter("rank"))[: self.question.k]


class Definitions:
    """The events of the broker, one after another, and what each means.

    `touched` names the subscriptions whose entries the last event may have changed.
    """

    def __init__(self, ground: Ground, lifetime: Lifetime | None, corpus: Corpus = ()) -> None:
        self.ground, self.lifetime, self.weights = ground, lifetime, Weights(corpus)
        self.clock: int | None = None
        self.last = 0  # the newest sequence
        self.n_late = 0
        self.live: dict[int, Arrival] = {}
        self.standing: dict[Id, Standing] = {}
        self.touched: set[Id] = set()

    def publish(self, message: Message) -> list[Update]:
        clock, window = self.clock, self.lifetime or Lifetime()
        ts = message.ts if message.ts is not None else clock if clock is not None else 0
        self.ground.check_places([(message.lon, message.lat)])
        if window.max_ahead is not None and clock is not None and ts > clock + round(window.max_ahead * 1000):
            raise Refused("too far ahead of the clock")
        after = ts if clock is None else max(clock, ts)
        dies = FOREVER if message.expires is None else message.expires
        if window.age is not None:
            dies = min(dies, ts + round(window.age * 1000))
        late = dies <= after
        if self.lifetime is not None and not late:
            holders = (arrival for arrival in self.live.values() if arrival.dies > after)
            if any(arrival.message.id == message.id for arrival in holders):
                raise Refused("the id is live")
        self.n_late += late
        newcomer = None
        if not late:
            self.last += 1
            bag = bag_of(message.text if message.text is not None else message.keywords or ())
            newcomer = Arrival(self.last, message, dies, bag)
        return self._step(after, newcomer)

    def advance(self, ts: int) -> list[Update]:
        return self._step(ts if self.clock is None else max(self.clock, ts), None)

    def _step(self, clock: int, newcomer: Arrival | None) -> list[Update]:
        """The clock moves, subscriptions and messages end, one message arrives: one event."""
        self.clock, self.touched = clock, set()
        for id in [id for id, s in self.standing.items() if s.expires is not None and s.expires <= clock]:
            del self.standing[id]
        if newcomer is not None:
            self.live[newcomer.sequence] = newcomer
        gone = [sequence for sequence, arrival in self.live.items() if not self._lives(arrival)]
        if self.lifetime is None:  # nothing lives, but the newcomer is heard
            gone = [sequence for sequence in self.live if newcomer is None or sequence != newcomer.sequence]
        for sequence in gone:
            del self.live[sequence]
        updates: list[Update] = []
        for id, standing in self.standing.items():
            entry = newcomer and standing.question.ask(newcomer, self.weights)
            forgets = self.lifetime is not None or standing.notifies
            ended = [sequence for sequence in gone if sequence in standing.entries] if forgets else []
            if entry is None and not ended:
                continue
            self.touched.add(id)
            before = [] if standing.notifies else standing.result()
            for sequence in ended:
                del standing.entries[sequence]
            if entry is not None:
                standing.entries[entry.sequence] = entry
            if not standing.notifies:
                updates += self._net_change(id, before, standing.result())
            elif entry is not None and entry.belongs:  # what expires leaves silently
                updates += self._net_change(id, [], [entry])
        return updates

    def _lives(self, arrival: Arrival) -> bool:
        count = self.lifetime.count if self.lifetime else None
        assert self.clock is not None
        return arrival.dies > self.clock and (count is None or arrival.sequence > self.last - count)

    def _net_change(self, id: Id, before: list[Entry], after: list[Entry]) -> list[Update]:
        had, has = ({e.sequence for e in entries} for entries in (before, after))
        gone = [Update(id, e.message, "-", e.score, self.clock) for e in before if e.sequence not in has]
        new = [Update(id, e.message, "+", e.score, self.clock) for e in after if e.sequence not in had]
        return gone + new

    def _ask_again(self, id: Id) -> list[Update]:
        """Every live message is put to the subscription anew."""
        self.touched.add(id)
        standing = self.standing[id]
        before = standing.result()
        if self.lifetime is None:
            if standing.notifies:
                standing.entries = {}
            return []
        asked = (standing.question.ask(a, self.weights) for a in self.live.values() if a.sequence > standing.since)
        standing.entries = {entry.sequence: entry for entry in asked if entry is not None}
        return self._net_change(id, before, standing.result())

    def subscribe(self, id: Id, query: Query, expires: int | None = None) -> list[Update]:
        question = Question(query, self.ground, self.lifetime is not None)
        if id in self.standing:
            raise Refused("the id is taken")
        self.touched = set()
        if expires is not None and self.clock is not None and expires <= self.clock:
            return []
        self.standing[id] = Standing(question, expires, 0 if query.backfill else self.last)
        return self._ask_again(id)

    def unsubscribe(self, id: Id) -> list[Update]:
        self._known(id)
        self.touched = set()
        del self.standing[id]
        return []

    def move(
        self, id: Id, *, lon: float | None = None, lat: float | None = None, region: Region | None = None
    ) -> list[Update]:
        standing = self._known(id)
        query = standing.question.query
        moved: Query
        if isinstance(query, Within):
            if region is None or lon is not None or lat is not None:
                raise Refused("a Within moves to a region")
            moved = dataclasses.replace(query, region=region)
        else:
            if region is not None or lon is None or lat is None:
                raise Refused("this query moves to a place")
            if self.lifetime is None and isinstance(query, Nearest):
                raise Refused("nothing refills a Nearest without a window")
            moved = dataclasses.replace(query, lon=lon, lat=lat)
        question = Question(moved, self.ground, self.lifetime is not None)
        self.touched = set()
        standing.question = question
        return self._ask_again(id)

    def reweigh(self, corpus: Corpus) -> list[Update]:
        self.weights, self.touched = Weights(corpus), set()
        weighed = [id for id, s in self.standing.items() if isinstance(s.question.query, Similar | TopK)]
        return [update for id in weighed for update in self._ask_again(id)]

    def results(self, id: Id) -> list[tuple[Id, float | None]]:
        standing = self._known(id)
        if self.lifetime is None and standing.notifies:
            return []
        return [(entry.message, entry.score) for entry in standing.result()]

    def _known(self, id: Id) -> Standing:
        if id not in self.standing:
            raise Refused("no such subscription")
        return self.standing[id]
