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
import math
from collections import Counter
from collections.abc import Collection, Hashable
from operator import attrgetter
from typing import NamedTuple

from definitions_of_text import (
    Corpus,
    Predicate,
    Rule,
    Weights,
    bag_of,
    expression,
    fold,
    requirement,
    words_of,
)
from field_definitions import FieldPredicate, condition
from places import TOLERANCE, Ground, Refused, Region, Span, in_region

from nearcast.model.analyzer import PLAIN_RULE, Analyzer
from nearcast.model.message import Message
from nearcast.model.query import Nearest, Query, Similar, TopK, Within
from nearcast.model.update import Update

__all__ = ["Corpus", "Predicate", "Refused", "Weights", "bag_of", "expression", "fold", "requirement", "words_of"]

Id = str | int

FOREVER = math.inf


# -------------------------------------------------------------------------------------------------------------- scores


class Arrival(NamedTuple):
    """A message that got a sequence."""

    sequence: int
    message: Message
    dies: float  # min(expires, ts + age)
    bag: Counter[str]
    ts: int = 0


class Entry(NamedTuple):
    """What a query says of one message that belongs to its result, or may.

    `low` and `high` bound its merit, tolerance included: the score, or the distance negated, so that more is better.
    Entries with equal `tie` have equal scores in any arithmetic: between them the newer one surely stands first.

    With a half-life the score fades, and `score`, `low` and `high` are what they are when the message is new.
    """

    sequence: int
    message: Id
    score: float | None
    rank: tuple[float, ...]  # sorts best first: merit negated, then newer first
    low: float
    high: float
    tie: Hashable
    belongs: bool = True
    sure: bool = True
    ts: int = 0
    half_life: int = 0  # milliseconds; 0: it does not fade

    def merit(self, bound: float) -> tuple[float, float]:
        """One of the bounds as messages are compared by it, whatever the clock: exponent, then mantissa."""
        return merit_without_clock(bound, self.ts, self.half_life) if self.half_life else (0, bound)

    def told(self, clock: int | None) -> float | None:
        """The score at a clock."""
        if not self.half_life or self.score is None:
            return self.score
        return self.score * faded(clock, self.ts, self.half_life)

    def may_be_told(self, merit: float, clock: int | None) -> bool:
        """Is a merit that was told within the bounds? The smallest floats have few digits."""
        if not self.half_life:
            return self.low <= merit <= self.high
        factor = faded(clock, self.ts, self.half_life)
        return self.low * factor - 1e-300 <= merit <= self.high * factor + 1e-300


def faded(clock: int | None, ts: int, half_life: int) -> float:
    """What is left of a score when the clock stands there."""
    assert clock is not None
    return float(2.0 ** (-(clock - ts) / half_life))


def merit_without_clock(score: float, ts: int, half_life: int) -> tuple[float, float]:
    """Exponent and mantissa of score * 2 ** (ts / half_life); zero comes last."""
    if score <= 0:
        return -math.inf, score
    turns, rest = divmod(ts, half_life)
    mantissa, exponent = math.frexp(score * 2 ** (rest / half_life))
    return turns + exponent, mantissa


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

    def __init__(self, query: Query, ground: Ground, windowed: bool, rule: Rule) -> None:
        self.query, self.ground = query, ground
        self.k = query.k if isinstance(query, TopK | Nearest) else None
        if isinstance(query, Within):
            ground.check_region(query.region)
            self.holds = requirement(query.keywords, rule)
        else:
            ground.check_places([(query.lon, query.lat)])
            self.bag = bag_of(query.keywords, rule)
            if not self.bag:
                raise Refused("no keywords")
        if isinstance(query, TopK) and not windowed:
            raise Refused("TopK without a window")
        self.wants: FieldPredicate = (lambda _: True) if query.where is None else condition(query.where)

    def ask(self, arrival: Arrival, weights: Weights) -> Entry | None:
        query = self.query
        if not self.wants(arrival.message.fields):
            return None
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
        message = arrival.message
        if not self.holds(message.text if message.keywords is None else message.keywords):
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
        if query.decay is None:
            return Entry(arrival.sequence, arrival.message.id, score, (-score, -arrival.sequence), low, high, tie)
        half_life = round(query.decay * 1000)
        exponent, mantissa = merit_without_clock(score, arrival.ts, half_life)
        rank = (-exponent, -mantissa, -arrival.sequence)
        ties = (*tie, arrival.ts if high > 0 else None)
        return Entry(
            arrival.sequence, arrival.message.id, score, rank, low, high, ties, ts=arrival.ts, half_life=half_life
        )

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

    `touched` names the subscriptions whose entries the last event may have changed; `withdrawn` is the sequence that it
    withdrew, and `successor` that of the version which took its place; 0 for none.
    """

    def __init__(
        self, ground: Ground, lifetime: Lifetime | None, corpus: Corpus = (), analyzer: Analyzer = PLAIN_RULE
    ) -> None:
        self.rule = Rule(analyzer)
        self.ground, self.lifetime, self.weights = ground, lifetime, Weights(corpus, self.rule)
        self.clock: int | None = None
        self.last = 0  # the newest sequence
        self.n_late = 0
        self.live: dict[int, Arrival] = {}
        self.standing: dict[Id, Standing] = {}
        self.touched: set[Id] = set()
        self.withdrawn = self.successor = 0

    def publish(self, message: Message) -> list[Update]:
        return self._arrive(message, updates=False)

    def update(self, message: Message) -> list[Update]:
        """The live message with this id leaves and the new version arrives; a plain publish if there is none."""
        if self.lifetime is None:
            raise Refused("nothing lives without a window")
        return self._arrive(message, updates=True)

    def retract(self, id: Id) -> list[Update]:
        if self.lifetime is None:
            raise Refused("nothing lives without a window")
        old = self._holder(id)
        if old is None or self.clock is None:
            raise Refused("no such live message")
        return self._step(self.clock, None, old)

    def _holder(self, id: Id) -> Arrival | None:
        """The live message with this id."""
        return next((arrival for arrival in self.live.values() if arrival.message.id == id), None)

    def _arrive(self, message: Message, updates: bool) -> list[Update]:
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
        old = None
        if updates and not late:
            old = self._holder(message.id)
        elif self.lifetime is not None and not late:
            holders = (arrival for arrival in self.live.values() if arrival.dies > after)
            if any(arrival.message.id == message.id for arrival in holders):
                raise Refused("the id is live")
        self.n_late += late
        newcomer = None
        if not late:
            self.last += 1
            bag = bag_of(message.text if message.text is not None else message.keywords or (), self.rule)
            newcomer = Arrival(self.last, message, dies, bag, ts)
        return self._step(after, newcomer, old)

    def advance(self, ts: int) -> list[Update]:
        return self._step(ts if self.clock is None else max(self.clock, ts), None)

    def _step(self, clock: int, newcomer: Arrival | None, old: Arrival | None = None) -> list[Update]:
        """The old message is withdrawn, the clock moves, subscriptions and messages end, one arrives: one event."""
        self.clock, self.touched = clock, set()
        self.withdrawn = old.sequence if old else 0
        self.successor = newcomer.sequence if old and newcomer else 0
        self.live.pop(self.withdrawn, None)
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
            if entry is None and not ended and self.withdrawn not in standing.entries:
                continue
            self.touched.add(id)
            before = standing.result()
            if standing.notifies:  # what expires leaves silently, what is withdrawn does not
                before = [e for e in before if e.sequence == self.withdrawn]
            standing.entries.pop(self.withdrawn, None)
            for sequence in ended:
                del standing.entries[sequence]
            if entry is not None:
                standing.entries[entry.sequence] = entry
            after = standing.result()
            if standing.notifies:
                after = [entry] if entry is not None and entry.belongs else []
            updates += self._net_change(id, before, after)
        return updates

    def _lives(self, arrival: Arrival) -> bool:
        count = self.lifetime.count if self.lifetime else None
        assert self.clock is not None
        return arrival.dies > self.clock and (count is None or arrival.sequence > self.last - count)

    def _net_change(self, id: Id, before: list[Entry], after: list[Entry]) -> list[Update]:
        had, has = ({e.sequence for e in entries} for entries in (before, after))
        if self.withdrawn in had and self.successor in has:  # it stays, under the same id
            had.add(self.successor)
            has.add(self.withdrawn)
        now = self.clock
        gone = [Update(id, e.message, "-", e.told(now), now) for e in before if e.sequence not in has]
        new = [Update(id, e.message, "+", e.told(now), now) for e in after if e.sequence not in had]
        return gone + new

    def _ask_again(self, id: Id) -> list[Update]:
        """Every live message is put to the subscription anew."""
        self.touched.add(id)
        self.withdrawn = self.successor = 0
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
        question = Question(query, self.ground, self.lifetime is not None, self.rule)
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
        question = Question(moved, self.ground, self.lifetime is not None, self.rule)
        self.touched = set()
        standing.question = question
        return self._ask_again(id)

    def reweigh(self, corpus: Corpus) -> list[Update]:
        self.weights, self.touched = Weights(corpus, self.rule), set()
        weighed = [id for id, s in self.standing.items() if isinstance(s.question.query, Similar | TopK)]
        return [update for id in weighed for update in self._ask_again(id)]

    def results(self, id: Id) -> list[tuple[Id, float | None]]:
        standing = self._known(id)
        if self.lifetime is None and standing.notifies:
            return []
        return [(entry.message, entry.told(self.clock)) for entry in standing.result()]

    def _known(self, id: Id) -> Standing:
        if id not in self.standing:
            raise Refused("no such subscription")
        return self.standing[id]
