"""Hypothesis strategies: settings of a broker, messages, the four queries, regions, and whole streams of events.

Most places lie on a coarse dyadic grid, so that sums are exact and ties happen, and words come from a small vocabulary,
so that matches happen. What breaks indexes is drawn often: borders, equal places, places far outside the bounds, the
date line and the poles, late and equal times, ids used again, repeated words, no words, expiries of messages'
own, windows of one message and windows of both sorts, no window at all.

Everything is made by functions over a `Source` of choices. Hypothesis is one source, and shrinks what it finds; a
seeded generator is the other, and makes long streams quickly.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from definitions import Corpus, Definitions, Ground, Id, Lifetime, Refused, expression
from hypothesis import strategies as st

import nearcast as nc
from nearcast.model.analyzer import PLAIN_RULE
from nearcast.model.message import Message
from nearcast.model.query import Nearest, Query, Similar, TopK, Within
from nearcast.model.region import Box, Circle, MultiPolygon, Polygon

T = TypeVar("T")
Place = tuple[float, float]
Region = Box | Circle | Polygon | MultiPolygon
Draw = Callable[[st.SearchStrategy[T]], T]

DEGREE_M = 6_371_008.8 * math.pi / 180

VOCABULARY = ("fire", "smoke", "ramen", "straße")
ANALYZERS = (
    nc.Analyzer(stemmer="english"),
    nc.Analyzer("english", "english", "fold", "bigrams"),
    nc.Analyzer(stop_words="english", accents="fold"),
    nc.Analyzer(cjk="bigrams"),
    nc.Analyzer(stop_words="french", stemmer="german"),
)
SPELLINGS = (
    "fires",
    "Smoking",
    "the",
    "fïre",
    "東京都",
    "ramens on fires",
    "x東京",
    "FIRE",
    "#smoke",
    "Ramen,",
    "\uff46ire",
    "road-fire",
    "STRASSE",
    "fire!fire",
    "İ",
    "e\u0301",
    "½",
    "_",
    "",
)
MEASURES = ("weighted", "overlap", "jaccard", "dice", "cosine")

NAMES = ("price", "kind", "tags", 'odd "name', "open", "kind")
VALUES: tuple[Any, ...] = (
    1, 2, 2.0, 2.5, -0.0, 0, 2**53, 2**53 + 1, 2**64 - 1, float("inf"), True, False, "food", "foo", "drink", "", "it's",
    "\uffee", "\U0001f525", "2", (), ("food",), ("drink", "food", "drink"), ("", "\U0001f525"), None,
)  # fmt: skip
LITERALS = (  # the first two have no order
    "TRUE", "FALSE", "1", "2", "+2.0", "-0", ".5e1", "9007199254740993", "9007199254740992.", "18446744073709551615",
    "'food'", "'drink'", "'foo'", "''", "'it''s'", "'\uffef'", "'2'", "'\U0001f525'",
)  # fmt: skip

GROUNDS = (
    Ground((0, 0, 8, 8), "euclidean"),
    Ground((0, 0, 8, 8), "euclidean", 4.0),
    Ground((3, 3, 3, 3), "euclidean", 16.0),
    Ground((-180, -90, 180, 90), "haversine"),
    Ground((170, -20, 180, 20), "haversine", 40 * DEGREE_M),
    Ground((-74.5, 40.25, -73.5, 41.25), "haversine"),
)
STEPS = (0.0, 2.0, 4.0, 6.0, 8.0, 4.0, -2.0, 10.0, 1.0, 5.5)  # in a plane
LONS = (180.0, 175.0, -175.0, 170.0, -180.0, 185.0, -170.0, 540.0, 0.0, 90.0)
LATS = (0.0, 5.0, -5.0, 10.0, 45.0, 89.0, 90.0, -90.0)
FAR = (-1000.0, 1e6, 1e200, -0.0)

COUNTS = (None, 8, 20, 4, None, 20, 2, 1)
AGES_S = (None, 5, 2.5, None, 10, 5, 1, 0.001)
AHEAD_S = (None, None, None, None, 4, 0)
TS_STEPS_MS = (0, 0, 0, 1, 1, 100, 100, 250, 250, 499, 500, 1000, 2500, -1, -500, -3000)
LIVES_MS = (*[None] * 12, 500, 1000, 2500, 5000, 1, 0, -1)  # of messages
STAYS_MS = (*[None] * 12, 2500, 5000, 500, 0)  # of subscriptions

DECAYS_S = (None, None, 0.001, 0.02, 1, 2.5, 3600)  # from nothing left after a second to as good as none
WINDOWED = ("nearest", "topk", "within", "similar")
WINDOWLESS = ("nearest", "nearest", "within", "similar", "nearest", "within", "similar", "topk")
SIZES = (1, 2, 3, 5, 20, 2**31 - 1)
SHARES = (0.5, 0.25, 0.0, 1.0, 0.75, 0.3)
METHODS = (
    *["publish"] * 10, *["update"] * 5, "retract", "retract", *["subscribe"] * 3, *["move"] * 3, "advance",
    "unsubscribe", "reweigh", "reweigh",
)  # fmt: skip
NAMINGS: tuple[Callable[[int], Id], ...] = (lambda n: f"m{n}", lambda n: n - 20, lambda n: 2**62 + n, lambda n: "é" * n)
N_SUBSCRIBERS = 8


class Source(Protocol):
    """Where choices come from."""

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""

    def number(self, low: float, high: float) -> float:
        """Any float in between."""

    def text(self) -> str:
        """Any few characters."""


class Drawn:
    """Choices that Hypothesis makes."""

    def __init__(self, draw: Draw[Any]) -> None:
        self.draw = draw

    def pick(self, options: Sequence[T]) -> T:
        chosen: T = options[self.draw(_below(len(options)))]
        return chosen

    def number(self, low: float, high: float) -> float:
        return float(self.draw(st.floats(low, high, allow_subnormal=False)))

    def text(self) -> str:
        return str(self.draw(st.text(max_size=3)))


class Seeded:
    """Choices of a seeded generator."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def number(self, low: float, high: float) -> float:
        return self.random.uniform(low, high)

    def text(self) -> str:
        return "".join(self.random.choices("aà\u0300 İßｱ-_7½\U0001f525", k=self.random.randrange(4)))


@functools.cache
def _below(n: int) -> st.SearchStrategy[int]:
    return st.integers(0, n - 1)


def one_in(n: int, source: Source) -> bool:
    """True once in n; simplest when False."""
    return source.pick(range(n)) == n - 1


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a broker is made of."""

    ground: Ground
    lifetime: Lifetime | None
    corpus: Corpus
    analyzer: nc.Analyzer = PLAIN_RULE

    def judge(self) -> Definitions:
        return Definitions(self.ground, self.lifetime, self.corpus, self.analyzer)

    def broker(self) -> nc.Broker:
        ground, lifetime = self.ground, self.lifetime
        return nc.Broker(
            nc.Space(bounds=ground.bounds, metric=ground.metric, max_distance=ground.max_distance),
            window=None if lifetime is None else nc.Window(**dataclasses.asdict(lifetime)),
            weights=nc.Weights.fit(self.corpus, self.analyzer),
            analyzer=self.analyzer,
        )


@dataclasses.dataclass(frozen=True)
class Event:
    """One call, the same for the judge and for the broker: the name of the method and its arguments."""

    method: str
    arguments: tuple[Any, ...]
    named: dict[str, Any] = dataclasses.field(default_factory=dict)

    def happen_to(self, target: Any) -> Any:
        given = self.arguments
        if self.method == "reweigh" and not isinstance(target, Definitions):
            given = (nc.Weights.fit(*given, target.analyzer),)
        return getattr(target, self.method)(*given, **self.named)

    def __repr__(self) -> str:
        given = [repr(a) for a in self.arguments] + [f"{name}={value!r}" for name, value in self.named.items()]
        return f"{self.method}({', '.join(given)})"


# ---------------------------------------------------------------------------------------------------------------- text


def make_word(source: Source) -> str:
    """Mostly a word of the vocabulary; sometimes an odd spelling of one, rarely anything."""
    if one_in(12, source):
        return source.text() if one_in(3, source) else source.pick(SPELLINGS)
    return source.pick(VOCABULARY)


def make_words(source: Source, most: int) -> tuple[str, ...]:
    return tuple(make_word(source) for _ in range(source.pick(range(most + 1))))


def make_text(source: Source) -> str:
    return source.pick((" ", " ", ", ", "/")).join(make_words(source, 5))


def make_corpus(source: Source) -> Corpus:
    return [make_words(source, 3) if one_in(4, source) else make_text(source) for _ in range(source.pick(range(6)))]


MARKS = str.maketrans("", "", '"*~\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}')


def make_keywords(source: Source) -> str | tuple[str, ...]:
    """At least one word, as a list or as plain text; what queries refuse in words is left out."""
    more = (word.translate(MARKS) for word in make_words(source, source.pick((0, 1, 2))))
    some = (source.pick(VOCABULARY), *more)
    return some if one_in(2, source) else " ".join(some)


def make_formula(source: Source, depth: int) -> str:
    """An expression with balanced parentheses; some have clauses without a positive word."""
    shape = source.pick(("{}", "({} OR {})", "{} AND {}", "NOT {}", "{} {}", "({})")) if depth else "{}"
    if shape == "{}":
        return source.pick(
            (
                *VOCABULARY,
                "road/fire",
                '"fire smoke"',
                '"ramen fire"',
                "fi*",
                "STRA*",
                "fires",
                '"smoking fires"',
                "fires*",
                "東京*",
            )
        )
    return shape.format(*(make_formula(source, depth - 1) for _ in range(shape.count("{}"))))


def make_requirement(source: Source) -> str | tuple[str, ...]:
    """Keywords of a Within, always well formed."""
    word, other = source.pick(VOCABULARY), source.pick(VOCABULARY)
    if one_in(3, source):
        try:
            expression(formula := make_formula(source, 3))
        except Refused:
            return word
        return formula
    options: tuple[str | tuple[str, ...], ...] = (
        word, (word,), f"{word} OR {other}", (word, other, word), f'"{word} {other}"', f"{word[:2]}*",
    )  # fmt: skip
    return source.pick(options)


# -------------------------------------------------------------------------------------------------------------- fields


def make_fields(source: Source) -> dict[str, Any] | None:
    """Mostly two or three fields of few values, so that conditions hold now and then; often none."""
    if one_in(4, source):
        return None
    return {source.pick(NAMES): source.pick(VALUES) for _ in range(source.pick(range(5)))}


def make_where(source: Source) -> str | None:
    """A condition for half of all queries."""
    return make_condition(source, 2) if one_in(2, source) else None


def make_condition(source: Source, depth: int) -> str:
    shapes = ("{}", "({} OR {})", "{} AND {}", "NOT {}", "({})", "{} OR {}", "NOT ({} AND {})")
    shape = source.pick(shapes) if depth else "{}"
    if shape != "{}":
        return shape.format(*(make_condition(source, depth - 1) for _ in range(shape.count("{}"))))
    name = source.pick(("price", '"price"', "kind", "tags", '"odd ""name"', "open"))
    sort = source.pick(("=", "IN", "!=", "order", "HAS", "="))
    if sort == "HAS":
        return f"HAS {name}"
    if sort == "IN":
        return f"{name} IN ({', '.join(source.pick(LITERALS) for _ in range(source.pick((1, 2, 3, 12))))})"
    if sort == "order":
        return f"{name} {source.pick(('<', '<=', '>', '>='))} {source.pick(LITERALS[2:])}"
    return f"{name} {sort} {source.pick(LITERALS)}"


# --------------------------------------------------------------------------------------------------------------- space


def make_place(source: Source, ground: Ground) -> Place:
    """Mostly a point of a coarse grid in and around the bounds; rarely anywhere."""
    odd = one_in(12, source)
    if ground.metric == "euclidean":
        lon, lat = source.pick(STEPS), source.pick(STEPS)
        if odd:
            return source.pick((lon, source.pick(FAR))), source.number(-100, 100)
        return lon, lat
    if odd:
        return source.number(-800, 800), source.number(-91, 91)
    if ground.bounds[2] - ground.bounds[0] <= 1:
        return -74 + source.pick(STEPS) / 16, 40.75 + source.pick(STEPS) / 16
    return source.pick(LONS), source.pick(LATS)


def make_region(source: Source, ground: Ground) -> Region:
    """A box, a circle or polygons whose border runs through grid points."""
    shape = source.pick(("box", "circle", "polygon", "union"))
    x1, y1 = make_place(source, ground)
    if shape == "circle":
        unit = DEGREE_M if ground.metric == "haversine" else 1.0
        return Circle(x1, y1, unit * source.pick((5.0, 2.0, 10.0, 0.25, 0.0, 90.0, 200.0)))
    if shape == "box":
        x2, y2 = make_place(source, ground)
        across = ground.metric == "haversine" and not one_in(3, source)
        west, east = (max(x1, x2), min(x1, x2)) if across else (min(x1, x2), max(x1, x2))
        return Box(west, min(y1, y2), east, max(y1, y2))
    if shape == "union":
        return MultiPolygon([make_polygon(source, ground) for _ in range(source.pick((2, 1, 3)))])
    return make_polygon(source, ground)


def make_polygon(source: Source, ground: Ground) -> Polygon:
    rings = [make_ring(source, ground) for _ in range(source.pick((1, 1, 2)))]
    return Polygon(rings[0], rings[1:])


def make_ring(source: Source, ground: Ground) -> list[Place]:
    ring = [make_place(source, ground) for _ in range(source.pick((3, 4, 5, 6)))]
    if len(set(ring)) >= 3:
        return ring
    x, y = ring[0]
    return [(x, y), (x + 2, y), (x, y - 2)]


# ------------------------------------------------------------------------------------------------------------- queries


def make_query(source: Source, ground: Ground, windowed: bool = True) -> Query:
    """Any of the four; `TopK` is rare where there is no window, which refuses it."""
    kind = source.pick(WINDOWED if windowed else WINDOWLESS)
    backfill = not one_in(4, source)
    if kind == "within":
        return Within(make_region(source, ground), make_requirement(source), backfill, make_where(source))
    lon, lat = make_place(source, ground)
    keywords, where = make_keywords(source), make_where(source)
    share = source.number(0, 1) if one_in(6, source) else source.pick(SHARES)
    if kind == "similar":
        return Similar(lon, lat, keywords, share, source.pick(SHARES), source.pick(MEASURES), backfill, where)
    if kind == "topk":
        return TopK(lon, lat, keywords, source.pick(SIZES), share, backfill, where, source.pick(DECAYS_S))
    return Nearest(lon, lat, keywords, source.pick(SIZES), source.pick(("any", "all")), backfill, where)


# -------------------------------------------------------------------------------------------------------------- events


def make_message(source: Source, ground: Ground, id: Id, clock: int) -> Message:
    """A message around the clock: mostly on time, sometimes early, late or without a time."""
    lon, lat = make_place(source, ground)
    ts = None if one_in(4, source) else clock + source.pick(TS_STEPS_MS)
    life = source.pick(LIVES_MS)
    expires = None if life is None else (clock if ts is None else ts) + life
    if one_in(3, source):
        return Message(id, lon, lat, None, make_words(source, 4), ts, expires, make_fields(source))
    return Message(id, lon, lat, make_text(source), None, ts, expires, make_fields(source))


def make_setting(source: Source) -> Setting:
    lifetime = Lifetime(source.pick(COUNTS), source.pick(AGES_S), source.pick(AHEAD_S))
    analyzer = source.pick(ANALYZERS) if one_in(3, source) else PLAIN_RULE
    return Setting(source.pick(GROUNDS), None if one_in(6, source) else lifetime, make_corpus(source), analyzer)


class StreamMaker:
    """Makes events as a program would send them, and now and then one that must be refused."""

    def __init__(self, source: Source, setting: Setting) -> None:
        self.source, self.ground, self.windowed = source, setting.ground, setting.lifetime is not None
        self.name = source.pick(NAMINGS)
        self.clock = source.pick((0, 0, 1_700_000_000_000, -5000))
        self.n_messages = 0
        self.kinds: dict[int, type] = {}  # of the subscribers that should be registered

    def make(self, method: str) -> Event:
        source = self.source
        if method in ("publish", "update"):
            self.n_messages += 1
            again = one_in(5, source) if method == "publish" else not one_in(5, source)
            n = self._earlier() if again else self.n_messages
            message = make_message(source, self.ground, self.name(n), self.clock)
            self.clock = self.clock if message.ts is None else max(self.clock, message.ts)
            return Event(method, (message,))
        if method == "retract":
            return Event("retract", (self.name(self._earlier()),))
        if method == "advance":
            self.clock = max(self.clock, ts := self.clock + source.pick(TS_STEPS_MS))
            return Event("advance", (ts,))
        if method == "reweigh":
            return Event("reweigh", (make_corpus(source),))
        if method == "subscribe":
            return self._subscribe()
        n = source.pick(list(self.kinds) or [0])
        kind = self.kinds.get(n)
        if method == "unsubscribe":
            self.kinds.pop(n, None)
            return Event("unsubscribe", (self.name(n),))
        if (kind is Within) != one_in(20, source):
            return Event("move", (self.name(n),), {"region": make_region(source, self.ground)})
        lon, lat = make_place(source, self.ground)
        return Event("move", (self.name(n),), {"lon": lon, "lat": lat})

    def _earlier(self) -> int:
        """The number of a message, rather of a late one: it may live."""
        return self.source.pick(range(max(0, self.n_messages - self.source.pick((100, 4, 10))), self.n_messages + 1))

    def _subscribe(self) -> Event:
        source = self.source
        fresh = [n for n in range(N_SUBSCRIBERS) if n not in self.kinds]
        n = source.pick(range(N_SUBSCRIBERS)) if one_in(10, source) or not fresh else source.pick(fresh)
        query = make_query(source, self.ground, self.windowed)
        self.kinds.setdefault(n, type(query))
        stay = source.pick(STAYS_MS)
        expires = None if stay is None else self.clock + stay
        return Event("subscribe", (self.name(n), query), {"expires": expires})


@st.composite
def streams(draw: Draw[Any], setting: Setting, most: int = 40) -> list[Event]:
    """Up to `most` events after three subscriptions."""
    maker = StreamMaker(Drawn(draw), setting)
    rest = [maker.source.pick(METHODS) for _ in range(draw(_below(most)))]
    return [maker.make(method) for method in ["subscribe"] * 3 + rest]


@st.composite
def brokers(draw: Draw[Any]) -> Setting:
    """What a broker is made of."""
    return make_setting(Drawn(draw))


@st.composite
def texts(draw: Draw[Any]) -> str:
    """Messages' texts."""
    return make_text(Drawn(draw))


@st.composite
def expressions(draw: Draw[Any]) -> str:
    """Any arrangement of words, operators and parentheses; many are malformed."""
    source = Drawn(draw)
    if one_in(2, source):
        return make_formula(source, 3)
    parts = (*VOCABULARY, '"fire smoke"', "fi*", "road-fire", "AND", "AND", "OR", "OR", "NOT", "(", ")", "-")
    return " ".join(source.pick(parts) for _ in range(source.pick(range(9))))
