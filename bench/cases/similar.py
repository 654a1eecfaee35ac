"""`Similar` subscriptions: what matching, building and updating costs STAMP and its rivals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from bench.cases.messages import Stream, admit, batches
from bench.cases.within import STOP_WORDS, compare
from bench.figure import Case, Counts, Stopwatch, WrongAnswer
from bench.judge import bag_of
from nearcast import Broker, Space
from nearcast.columns.arena import Ints
from nearcast.columns.decode_subscriptions import Rules, decode_subscriptions
from nearcast.columns.subscription_tables import PointRows, PointTable
from nearcast.engines.contract import Changes, EngineContext
from nearcast.engines.oracle import SimilarOracle
from nearcast.model.kinds import Kind
from nearcast.text.vocabulary import Vocabulary
from nearcast.text.weights import Weights
from nearcast.text.words import from_lists
from nearcast.window.live import LiveMessages, Steps
from nearcast.workload import subscriptions

STAMP = "stamp"
UPDATES = 10_000  # subscriptions that come or go at a time

_SETTINGS = {STAMP: ("fanout", "filters", "strategy"), "scan": ()}  # of engines that have others than a fanout
_BATCH = 100  # messages that are published at a time
_SOURCE = 300_000  # messages that subscriptions are drawn from, and idf is counted in
_SIMILAR = Kind.SIMILAR


def engine_class(name: str) -> Callable[..., Any]:
    """Makes an engine from its table, surroundings and settings: STAMP or a rival."""
    if name != STAMP:
        from bench.rivals.similar_all import BY_NAME

        return BY_NAME[name]
    from nearcast.engines.similar import SimilarStamp, StampSettings

    return lambda table, context, **given: SimilarStamp(table, context, StampSettings(**given))


def with_varied(sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Settings changed by the names and values in `varied`, such as "delta 0.25, tau 0.5"; "defaults" changes none."""
    changed = dict(sizes)
    for pair in changed.pop("varied", "defaults").split(", "):
        name, _, value = pair.partition(" ")
        if value:
            changed[name] = json.loads(value)
    return changed


class Standing(Case):
    """`subscriptions` subscriptions in the engine `engine`, and messages that come by the hundred.

    Places, words and messages are those of `messages`, similar places lie within `max_distance`. Subscriptions have
    `words` words; delta, tau and measure are drawn as in `workload.subscriptions.similar` unless `delta` or `tau` is
    given; `message_words` cuts or extends every message. The last `inserted` in a hundred come after the others, by
    10,000 at a time. Other settings are the engine's own: `fanout`, `filters`, `strategy`. There is no window.
    """

    unit = "messages"

    def prepare(self) -> None:
        self.sizes = with_varied(self.sizes)
        self.open()
        self.engine = self.make()
        first, later = cut(drawn(self.before, self.sizes, self.seed), self.n_first)
        self.engine.insert(self.register(first))
        for batch in batches(pa.concat_tables(later), UPDATES) if later else []:
            self.engine.insert(self.register([batch]))

    @property
    def n_first(self) -> int:
        """How many subscriptions are there before others are inserted."""
        n: int = self.sizes["subscriptions"]
        return n - n * self.sizes.get("inserted", 0) // 100

    def open(self) -> None:
        """The stream, the words' weights, and an empty table."""
        self.stream = Stream(self.sizes["messages"], self.seed)
        self.source = self.stream.source
        space = self.stream.space
        self.space = Space(space.bounds, space.metric, self.sizes["max_distance"])
        self.before = self.stream.take(min(_SOURCE, self.sizes["subscriptions"]))
        self.vocabulary = Vocabulary(Weights.fit(self.before["text"]))
        self.live = LiveMessages(self.space, None, self.vocabulary)
        self.context = EngineContext(self.space, self.vocabulary, self.live)
        self.table = PointTable(self.vocabulary, Kind.SIMILAR)
        self.n_answers = self.n_messages = 0

    def make(self) -> Any:
        """An engine without subscriptions."""
        name = self.sizes["engine"]
        own = {setting: self.sizes[setting] for setting in _SETTINGS.get(name, ("fanout",)) if setting in self.sizes}
        return engine_class(name)(self.table, self.context, **own)

    def register(self, tables: Iterable[pa.Table]) -> Ints:
        """Write subscriptions to the table; returns their slots."""
        slots = []
        for given in tables:
            batch = decode_subscriptions(given, Rules(self.space, False, None))
            if batch.rejects:
                raise WrongAnswer(f"a subscription was refused: {batch.rejects[0]}")
            for part in batch.parts:
                assert isinstance(part.given, PointRows)
                numbers = np.arange(len(part.ids), dtype=np.int32)  # of nobody's registry
                terms = self.vocabulary.encode(from_lists(part.words))
                slots.append(self.table.insert(part.given, terms, numbers, 0))
        return np.concatenate(slots)

    def arriving(self, n: int) -> list[pa.Table]:
        """The next messages, by the hundred."""
        taken = self.stream.take(n)
        n_words = self.sizes.get("message_words")
        return batches(taken if n_words is None else with_words(taken, n_words), _BATCH)

    def publish(self, steps: Steps, watch: Stopwatch) -> Changes:
        """Let the engine see the messages."""
        with watch:
            told: Changes = self.engine.publish(steps)
        self.live.release(steps)
        self.n_answers += told.slots.size
        self.n_messages += int(steps.arrivals.size)
        return told

    def check(self) -> int:
        for batch in self.arriving(self.sizes["checked"]):
            steps = admit(self.live, self.space, batch)
            right = SimilarOracle(self.table, self.context).publish(steps)
            compare_scores(self.publish(steps, Stopwatch()), right)
        return int(self.sizes["checked"])

    def repeat(self, watch: Stopwatch) -> int:
        n_answers, n_messages = self.n_answers, self.n_messages
        for batch in self.arriving(self.sizes["published"]):
            self.publish(admit(self.live, self.space, batch), watch)
        return self.n_answers - n_answers if self.unit == "answers" else self.n_messages - n_messages

    def counts(self) -> Counts:
        stats = self.engine.stats()
        counted = {name: value for name, value in stats.items() if isinstance(value, int | float) and name != "bytes"}
        n = max(1, len(self.table))
        each = {"index_bytes": stats["bytes"] / n, "subscription_bytes": (stats["bytes"] + self.table.nbytes) / n}
        return {**counted, "answers": self.n_answers, "messages": self.n_messages, **each}


class StandingPerAnswer(Standing):
    """The same; what is counted are answers."""

    unit = "answers"


class Building(Standing):
    """Bulk construction: a repetition files all subscriptions in a new engine."""

    unit = "subscriptions"

    def repeat(self, watch: Stopwatch) -> int:
        del self.engine
        self.engine = self.make()
        slots = self.table.used_slots
        with watch:
            self.engine.insert(slots)
        return int(slots.size)


class Inserting(Standing):
    """Updates of the index alone: a repetition inserts a tenth more, by 10,000 at a time, and takes them out again."""

    unit = "subscriptions"

    def prepare(self) -> None:
        super().prepare()
        more = {**self.sizes, "subscriptions": self.sizes["subscriptions"] // 10}
        self.more = batches(pa.concat_tables(drawn(self.before, more, self.seed + 1)), UPDATES)

    def repeat(self, watch: Stopwatch) -> int:
        inserted = []
        for batch in self.more:
            slots = self.register([batch])
            with watch:
                self.engine.insert(slots)
            inserted.append(slots)
        for slots in inserted:
            self.engine.remove(slots)
            self.table.remove(slots)
        return sum(slots.size for slots in inserted)


class Updating(Case):
    """A broker with `subscriptions` subscriptions, whose `Similar` engine is `engine`.

    A repetition registers `updated` more through `subscribe_many`, Arrow tables of 10,000, and ends them through
    `unsubscribe_many`; what is timed is the one or the other, as `timed` says ("subscribe", "unsubscribe").
    """

    unit = "subscriptions"

    def prepare(self) -> None:
        sizes = self.sizes
        self.stream = Stream(sizes["messages"], self.seed)
        self.source = self.stream.source
        given = self.stream.space
        before = self.stream.take(min(_SOURCE, sizes["subscriptions"]))
        space = Space(given.bounds, given.metric, sizes["max_distance"])
        self.broker = Broker(space, weights=Weights.fit(before["text"]))
        self.engine = engine_class(sizes["engine"])(self.broker.parts.tables[_SIMILAR], self.broker.parts.context)
        self.answer_with(self.engine)
        for table in drawn(before, sizes, self.seed):
            self.subscribe(table)
        more = drawn(before, {**sizes, "subscriptions": sizes["updated"]}, self.seed + 1)
        self.more = pa.concat_tables(more).combine_chunks()
        self.ids = count(sizes["subscriptions"] + 1)

    def answer_with(self, engine: Any) -> None:
        """Let this engine answer for `Similar`."""
        self.broker.parts.engines[_SIMILAR] = engine

    def subscribe(self, table: pa.Table) -> None:
        rejects = self.broker.subscribe_many(table).rejects
        if rejects:
            raise WrongAnswer(f"a subscription was refused: {rejects[0]}")

    def check(self) -> int:
        """The updates for some messages after others have come and gone, against the brute force."""
        self.repeat(Stopwatch())
        waiting = self.stream.take(self.sizes["checked"])
        told = self.broker.publish(waiting).to_arrow()
        self.answer_with(SimilarOracle(self.broker.parts.tables[_SIMILAR], self.broker.parts.context))
        right = self.broker.publish(waiting.set_column(0, "id", pa.array(-waiting["id"].to_numpy()))).to_arrow()
        self.answer_with(self.engine)
        right = right.set_column(1, "message", pa.array(-right["message"].to_numpy()))
        by_pair = [("message", "ascending"), ("subscription", "ascending")]
        columns = ["subscription", "message", "score"]
        if told.select(columns).sort_by(by_pair) != right.select(columns).sort_by(by_pair):
            raise WrongAnswer(f"{told.num_rows} updates, but right are {right.num_rows}, or their scores differ")
        return int(self.sizes["checked"])

    def repeat(self, watch: Stopwatch) -> int:
        fresh = pa.array(np.fromiter(self.ids, np.int64, self.more.num_rows))
        coming = batches(self.more.set_column(0, "id", fresh), UPDATES)
        timed = {name: watch if name == self.sizes["timed"] else Stopwatch() for name in ("subscribe", "unsubscribe")}
        for batch in coming:
            with timed["subscribe"]:
                self.subscribe(batch)
        for batch in coming:
            with timed["unsubscribe"]:
                self.broker.unsubscribe_many(batch.select(["id"]))
        return int(self.more.num_rows)

    def counts(self) -> Counts:
        stats = self.broker.stats()
        return {"subscriptions": stats["subscriptions"]["all"], "index_bytes": stats["engines"]["similar"]["bytes"]}


def drawn(messages: pa.Table, sizes: Mapping[str, Any], seed: int) -> Iterator[pa.Table]:
    """Tables of subscriptions over the messages, with the words, measure, delta and tau of the sizes."""
    source = subscriptions.Source.of(messages, STOP_WORDS.split())
    fewest, most = sizes.get("words", (1, 5))
    measure = sizes.get("measure", "weighted")
    made = subscriptions.similar(
        source, sizes["subscriptions"], seed, measure=measure, words=(fewest, most), backfill=False
    )
    for table in made:
        for name in ("delta", "tau"):
            if name in sizes:
                same = pa.array(np.full(table.num_rows, float(sizes[name])))
                table = table.set_column(table.column_names.index(name), name, same)
        yield table


def cut(tables: Iterator[pa.Table], n: int) -> tuple[Iterator[pa.Table], list[pa.Table]]:
    """The first `n` rows as they are asked for, and the list that the rest is in after that."""
    rest: list[pa.Table] = []

    def first() -> Iterator[pa.Table]:
        left = n
        for table in tables:
            if left:
                yield table.slice(0, left)
            if table.num_rows > left:
                rest.append(table.slice(left))
            left = max(0, left - table.num_rows)

    return first(), rest


def with_words(messages: pa.Table, n_words: int) -> pa.Table:
    """The messages, each cut to its first `n_words` distinct words, or extended by the words of those that follow."""
    bags = [list(bag_of(text)) for text in messages["text"].to_pylist()]
    if sum(map(len, bags)) == 0:
        raise WrongAnswer("messages without words")
    texts = []
    for at in range(len(bags)):
        words: dict[str, None] = {}
        for step in range(len(bags)):
            words |= dict.fromkeys(bags[(at + step) % len(bags)])
            if len(words) >= n_words:
                break
        texts.append(" ".join(list(words)[:n_words]))
    return messages.set_column(messages.column_names.index("text"), "text", pa.array(texts))


def compare_scores(told: Changes, right: Changes) -> None:
    """Equal matches with equal scores, to the last bit.

    Raises
    ------
    WrongAnswer
        If there is a difference.
    """
    compare(told, right)
    ours, theirs = (them.scores[np.lexsort((them.slots, them.events))] for them in (told, right))
    if not np.array_equal(ours, theirs):
        raise WrongAnswer(f"{int((ours != theirs).sum())} scores differ")
