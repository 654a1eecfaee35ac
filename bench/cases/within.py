"""`Within` subscriptions that stand still: what matching costs an engine, by itself and behind the broker's door."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from bench.cases.messages import S1M, Stream, admit, batches
from bench.figure import Case, Counts, Stopwatch, WrongAnswer
from nearcast import Broker, Window
from nearcast.columns.arena import Ints
from nearcast.columns.clauses import pack_clauses
from nearcast.columns.decode_subscriptions import Rules, decode_subscriptions
from nearcast.columns.subscription_tables import WithinRows, WithinTable
from nearcast.engines.contract import Changes, EngineContext
from nearcast.engines.oracle import WithinOracle
from nearcast.model.kinds import Kind
from nearcast.text.vocabulary import Vocabulary
from nearcast.text.words import from_lists
from nearcast.window.live import LiveMessages
from nearcast.workload import s1m, subscriptions
from nearcast.workload.schema import BLOCK

BATCH = 1000
AP_TREE = "ap_tree"
DATA = ("tweets_2021_2022", "poi_simplegeo_us", "places_gnis_us", "zipf", "s1m")
STILL = {"engine": AP_TREE, "filing": "index"}  # as in section 3 of the paper: no messages are filed with the leaves
LINES: dict[str, dict[str, Any]] = {
    "AP-Tree": STILL,
    "two-level": {"engine": "two_level"},
    "IQ-Tree": {"engine": "iq_tree"},
    "RQ-Tree": {"engine": "rq_tree"},
}
SETTINGS = {  # of AP-Tree, by the names that they have among the sizes of a case
    "fanout": "fanout",
    "leaf": "leaf",
    "drift": "drift",
    "partition": "cuts",
    "priority": "priority",
    "filing": "messages",
}
SIZES = {"subscriptions": 200_000, "sample": 20_000, "published": 20_000, "checked": 20}
TINY = {"messages": "zipf", "subscriptions": 1_500, "sample": 1_000, "published": 1_000, "checked": 50}

_SOURCE = 300_000  # messages that subscriptions are drawn from
STOP_WORDS = (
    "a about all am an and any are as at be been but by can do for from get got had has have he her his how i if in is "
    "it its just like m me my no not now of on one or our out rt s she so t that the their them there they this to too "
    "up us was we were what when where who will with you your"
)


def engine_class(name: str) -> Callable[..., Any]:
    """Makes an engine from its table, surroundings and settings: AP-Tree or a rival."""
    if name != AP_TREE:
        from bench.rivals.all import BY_NAME

        return BY_NAME[name]
    from nearcast.engines.within import ApTreeSettings, WithinApTree

    return lambda table, context, **given: WithinApTree(table, context, settings=ApTreeSettings(**given))


def settings_of(sizes: dict[str, Any]) -> dict[str, Any]:
    """The settings of the engine among the sizes."""
    return {field: sizes[name] for name, field in SETTINGS.items() if name in sizes}


class Drawing(NamedTuple):
    """How subscriptions are drawn from the first messages of a stream."""

    messages: str
    seed: int
    bounds: tuple[float, float, float, float]
    n_before: int  # messages to draw from
    areas: tuple[float, float]
    words: tuple[int, int]
    expressions: bool

    @classmethod
    def of(cls, sizes: dict[str, Any], stream: Stream, seed: int) -> Drawing:
        area, n_words = sizes.get("area"), sizes.get("n_words")
        areas = subscriptions.AREAS if area is None else (area, area)
        words = (1, 5) if n_words is None else (n_words, n_words)
        n_before = min(_SOURCE, max(sizes["sample"], sizes["subscriptions"]))
        return cls(
            sizes["messages"], seed, stream.space.bounds, n_before, areas, words, sizes.get("expressions", False)
        )

    def tables(self, n: int) -> Iterator[pa.Table]:
        """Tables of `n` subscriptions; those of `s1m` are its own."""
        return iter(_few(self, n)) if n <= BLOCK else self.draw(n)

    def draw(self, n: int) -> Iterator[pa.Table]:
        if self.messages == S1M:
            return s1m.subscriptions(n, self.seed)
        return self.drawn_from(Stream(self.messages, self.seed).take(self.n_before), n, self.seed)

    def drawn_from(self, messages: pa.Table, n: int, seed: int) -> Iterator[pa.Table]:
        """Tables of `n` subscriptions drawn from these messages."""
        source = subscriptions.Source.of(messages, STOP_WORDS.split())
        own = {"areas": self.areas, "words": self.words, "expressions": self.expressions, "bounds": self.bounds}
        return subscriptions.within(source, n, seed, **own)


@lru_cache(maxsize=8)
def _few(drawing: Drawing, n: int) -> list[pa.Table]:
    """Kept: guards ask for the same few subscriptions again and again."""
    return list(drawing.draw(n))


class Standing(Case):
    """`subscriptions` subscriptions in the engine `engine`, which has seen `sample` messages before.

    The engine stands alone, without a broker. Messages are those of `messages`, and subscriptions are drawn from them
    as `workload.subscriptions.within` does: boxes of `area` of the space, `n_words` words, or `expressions`. What
    `SETTINGS` lists are the engine's own settings. A repetition is `published` messages.
    """

    unit = "messages"

    def prepare(self) -> None:
        self.open()
        self.slots = self.register(self.drawing.tables(self.sizes["subscriptions"]))
        self.engine = self.make()
        self.engine.insert(self.slots)

    def open(self) -> None:
        """The stream, and the messages that were before."""
        sizes = self.sizes
        self.stream = Stream(sizes["messages"], self.seed)
        self.source = self.stream.source
        self.vocabulary = Vocabulary()
        self.live = LiveMessages(self.stream.space, Window(count=sizes["sample"]), self.vocabulary)
        self.context = EngineContext(self.stream.space, self.vocabulary, self.live)
        self.table = WithinTable(self.vocabulary)
        self.drawing = Drawing.of(sizes, self.stream, self.seed)
        before = self.stream.take(self.drawing.n_before)
        for batch in batches(before.slice(0, sizes["sample"]), BATCH):
            self.live.release(admit(self.live, self.stream.space, batch))

    def make(self) -> Any:
        """An engine without subscriptions."""
        return engine_class(self.sizes["engine"])(self.table, self.context, **settings_of(self.sizes))

    def register(self, tables: Iterator[pa.Table]) -> Ints:
        """Write subscriptions to the table; returns their slots."""
        slots = [np.zeros(0, np.int32)]
        for given in tables:
            batch = decode_subscriptions(given, Rules(self.stream.space, True, None))
            if batch.rejects:
                raise WrongAnswer(f"a subscription was refused: {batch.rejects[0]}")
            for part in batch.parts:
                assert isinstance(part.given, WithinRows)
                clauses, n_entries = pack_clauses(self.vocabulary.encode(from_lists(part.words)), part.n_clauses)
                first = len(self.table)
                numbers = np.arange(first, first + len(part.ids), dtype=np.int32)
                slots.append(self.table.insert(part.given, clauses, n_entries, numbers, self.live.last))
        return np.concatenate(slots)

    def check(self) -> int:
        steps = admit(self.live, self.stream.space, self.stream.take(self.sizes["checked"]))
        compare(self.engine.publish(steps), WithinOracle(self.table, self.context).publish(steps))
        self.live.release(steps)
        return int(self.sizes["checked"])

    def repeat(self, watch: Stopwatch) -> int:
        n_messages = n_matches = 0
        for batch in batches(self.stream.take(self.sizes["published"]), BATCH):
            steps = admit(self.live, self.stream.space, batch)
            with watch:
                n_matches += self.engine.publish(steps).slots.size
            self.live.release(steps)
            n_messages += batch.num_rows
        return n_matches if self.unit == "matches" else n_messages

    def counts(self) -> Counts:
        stats = self.engine.stats()
        counted = {name: value for name, value in stats.items() if isinstance(value, int | float) and name != "bytes"}
        table_bytes = self.table.nbytes
        each = (table_bytes + stats["bytes"]) / max(1, len(self.table))
        return {**counted, "index_bytes": stats["bytes"], "table_bytes": table_bytes, "subscription_bytes": each}


class StandingPerMatch(Standing):
    """The same; what is counted are matches."""

    unit = "matches"


class Building(Standing):
    """Bulk construction: a repetition files all subscriptions in a new engine."""

    unit = "subscriptions"

    def repeat(self, watch: Stopwatch) -> int:
        del self.engine
        self.engine = self.make()
        with watch:
            self.engine.insert(self.slots)
        return self.slots.size


class Delivery(Case):
    """Subscriptions in a broker whose `Within` engine is `engine`; messages come as Arrow batches of 1,000.

    There is no window: subscribers are notified and nothing is kept.
    """

    unit = "messages"

    def prepare(self) -> None:
        sizes = self.sizes
        self.stream = self.new_stream()
        self.source = self.stream.source
        self.broker = self.new_broker()
        self.engine = put_in(self.broker, sizes["engine"], **settings_of(sizes))
        drawing = Drawing.of({"sample": 1, **sizes}, self.stream, self.seed)
        self.stream.take(drawing.n_before)
        rejects = self.broker.subscribe_many(self.given(drawing)).rejects
        if rejects:
            raise WrongAnswer(f"a subscription was refused: {rejects[0]}")

    def new_stream(self) -> Stream:
        """The messages."""
        return Stream(self.sizes["messages"], self.seed)

    def new_broker(self) -> Broker:
        """Without subscriptions."""
        return Broker(self.stream.space)

    def given(self, drawing: Drawing) -> pa.Table:
        """The subscriptions."""
        return pa.concat_tables(list(drawing.tables(self.sizes["subscriptions"])))

    def check(self) -> int:
        """The updates for some messages, against the brute force in the same broker."""
        waiting = self.stream.take(self.sizes["checked"])
        told = set(pairs(self.broker.publish(waiting).to_arrow()))
        right = WithinOracle(self.broker.parts.tables[Kind.WITHIN], self.broker.parts.context)
        swap(self.broker, right)
        try:
            renamed = waiting.set_column(0, "id", pa.array(-waiting["id"].to_numpy()))
            expected = {(who, -message) for who, message in pairs(self.broker.publish(renamed).to_arrow())}
        finally:
            swap(self.broker, self.engine)
        if told != expected:
            raise WrongAnswer(f"{len(told - expected)} matches too many, {len(expected - told)} missing")
        return int(self.sizes["checked"])

    def repeat(self, watch: Stopwatch) -> int:
        waiting = batches(self.stream.take(self.sizes["published"]), BATCH)
        publish = self.broker.publish
        with watch:
            for batch in waiting:
                publish(batch)
                watch.lap("batch of 1,000")
        return sum(batch.num_rows for batch in waiting)

    def counts(self) -> Counts:
        stats = self.broker.stats()
        engine = stats["engines"]["within"]
        counted = {name: value for name, value in engine.items() if isinstance(value, int | float) and name != "bytes"}
        each = stats["bytes"]["subscriptions"] / max(1, stats["subscriptions"]["all"])
        return {**counted, "index_bytes": engine["bytes"], "subscription_bytes": each}


def compare(told: Changes, right: Changes) -> None:
    """Equal matches, in whatever order inside an event.

    Raises
    ------
    WrongAnswer
        With the first event that differs.
    """
    said, expected = (sorted(zip(*(column.tolist() for column in them[:4]), strict=True)) for them in (told, right))
    if said != expected:
        differing = sorted(set(said) ^ set(expected)) or [("twice", said)]
        raise WrongAnswer(f"(event, subscription, message, sign) {differing[0]} and {len(differing) - 1} others differ")


def pairs(updates: pa.Table) -> Iterator[tuple[int, int]]:
    """Subscription and message of each update."""
    return zip(updates["subscription"].to_pylist(), updates["message"].to_pylist(), strict=True)


def put_in(broker: Broker, name: str, **settings: Any) -> Any:
    """Let another engine answer for `Within` in a broker that has no subscriptions yet."""
    engine = engine_class(name)(broker.parts.tables[Kind.WITHIN], broker.parts.context, **settings)
    swap(broker, engine)
    return engine


def swap(broker: Broker, engine: Any) -> None:
    """Let this engine answer for `Within`."""
    broker.parts.engines[Kind.WITHIN] = engine
