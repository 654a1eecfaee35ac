"""`TopK` over a full window: what arrivals and expiries cost an engine, and what subscribing costs the broker."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from bench.cases.index import distances
from bench.cases.messages import Stream, admit, batches
from bench.figure import Case, Counts, Stopwatch, WrongAnswer
from bench.judge import same_score
from nearcast import Broker, Weights, Window
from nearcast.columns.decode_subscriptions import Rules, decode_subscriptions
from nearcast.columns.subscription_tables import PointRows, PointTable
from nearcast.engines.contract import EngineContext
from nearcast.engines.topk import SkypeSettings, TopKSkype
from nearcast.model.kinds import Kind
from nearcast.text.vocabulary import Vocabulary
from nearcast.text.words import from_lists
from nearcast.window.live import LiveMessages, Steps
from nearcast.workload import subscriptions

BATCH = 1000
SKYPE, CIQ, ONE_QUADTREE = "skype", "ciq", "one_quadtree"
DATA = ("tweets_2021_2022", "places_gnis_us", "poi_simplegeo_us")
SETTINGS = ("cell", "groups", "prune_groups", "strategy", "share")
KMAX = {"strategy": "kmax", "share": 3.0}
SKYBAND = {"strategy": "ratio", "share": 0.95}
SIZES = {
    "messages": "poi_simplegeo_us",
    "engine": SKYPE,
    "subscriptions": 1_000_000,
    "window": 1_000_000,
    "k": 20,
    "n_words": 0,
    "part": "both",
    "batch": BATCH,
    "published": 10_000,
    "checked": 20,
}
SMALL = {**SIZES, "subscriptions": 100_000, "window": 100_000}
TINY = {"messages": "zipf", "subscriptions": 300, "window": 300, "published": 100, "checked": 20}

WORKLOAD = (
    "100,000 subscriptions of 1 to 5 words, k = 20, alpha at random, over the newest 100,000 messages, unless swept"
)

_CORPUS = 100_000
_SOURCE = 300_000


class Sliding(Case):
    """`subscriptions` of the best `k`, in the engine `engine` alone, over the newest `window` of `messages`.

    Subscriptions are drawn as `workload.subscriptions.topk` does, 1 to 5 words each unless `n_words` says how many. A
    repetition is `published` messages, `batch` at a time; `part` says what is timed: "arrivals" (the paper's AMP),
    "expiries" (EMP) or "both". Arrivals and expiries of a batch are separate calls unless both are timed, the arrivals
    first.
    """

    unit = "messages"

    def prepare(self) -> None:
        sizes = self.sizes
        self.stream = Stream(sizes["messages"], self.seed)
        self.source = self.stream.source
        first = self.stream.take(sizes["window"])
        self.vocabulary = Vocabulary(Weights.fit(first["text"].slice(0, _CORPUS)))
        self.live = LiveMessages(self.stream.space, Window(count=sizes["window"]), self.vocabulary)
        self.context = EngineContext(self.stream.space, self.vocabulary, self.live)
        for batch in batches(first, BATCH):
            self.live.release(admit(self.live, self.stream.space, batch))
        self.table = PointTable(self.vocabulary, Kind.TOPK)
        self.engine = self.make()
        words = (1, 5) if not sizes["n_words"] else (sizes["n_words"], sizes["n_words"])
        source = subscriptions.Source.of(first.slice(0, _SOURCE))
        for given in subscriptions.topk(source, sizes["subscriptions"], self.seed, k=sizes["k"], words=words):
            slots = self.register(given)
            self.engine.insert(slots)
            self.engine.fill(slots)

    def make(self) -> Any:
        """An engine without subscriptions."""
        given = {name: self.sizes[name] for name in SETTINGS if name in self.sizes}
        if self.sizes["engine"] == SKYPE:
            return TopKSkype(self.table, self.context, SkypeSettings(**given))
        if self.sizes["engine"] == ONE_QUADTREE:
            from bench.rivals.one_quadtree import OneQuadtree

            return OneQuadtree(self.table, self.context, SkypeSettings(**given))
        from bench.rivals.ciq import CIQ as Rival

        return Rival(self.table, self.context, **given)

    def register(self, given: pa.Table) -> np.ndarray:
        """Write subscriptions to the table; returns their slots."""
        slots = []
        for part in decode_subscriptions(given, Rules(self.stream.space, True, None)).parts:
            assert isinstance(part.given, PointRows)
            numbers = np.arange(len(self.table), len(self.table) + len(part.ids), dtype=np.int32)
            slots.append(self.table.insert(part.given, self.vocabulary.encode(from_lists(part.words)), numbers, 0))
        return np.concatenate(slots)

    def check(self) -> int:
        for batch in batches(self.stream.take(2 * BATCH if self.sizes["window"] > BATCH else 50), BATCH):
            steps = admit(self.live, self.stream.space, batch)
            self.engine.publish(steps)
            self.live.release(steps)
        sample = np.random.default_rng(self.seed).integers(0, len(self.table), self.sizes["checked"])
        for slot in sample.tolist():
            ours, right = self.engine.result(slot)[1].tolist(), self.scan(slot)
            if len(ours) != len(right) or not all(map(same_score, ours, right)):
                raise WrongAnswer(f"subscription {slot}: {ours}, but right is {right}")
        return int(sample.size)

    def scan(self, slot: int) -> list[float]:
        """The best scores by looking at every live message."""
        layout, idf, space = self.live.table.layout, self.vocabulary.idf, self.stream.space
        row, scale = self.table.layout.rows[slot], self.table.layout.scales[slot]
        own = slice(int(row["term_start"]), int(row["term_start"]) + int(row["n_terms"]))
        asked = np.zeros(idf.size)
        asked[self.table.layout.terms[own]] = self.table.layout.counts[own] * idf[self.table.layout.terms[own]]
        rows = layout.rows[self.live.table.live_slots]
        lengths = rows["n_terms"].astype(np.int64)
        owner = np.repeat(np.arange(rows.size), lengths)
        places = np.arange(owner.size) + np.repeat(rows["term_start"] - (np.cumsum(lengths) - lengths), lengths)
        terms = layout.terms[places]
        dots = np.bincount(owner, asked[terms] * layout.counts[places] * idf[terms], rows.size)
        away = distances(space.metric, float(row["x"]), float(row["y"]), rows["x"], rows["y"])
        alpha = float(scale["alpha"])
        with np.errstate(invalid="ignore", divide="ignore"):
            cosines = dots / (scale["norm"] * rows["norm"])
        scores = alpha * np.maximum(0.0, 1.0 - away / space.max_distance) + (1.0 - alpha) * cosines
        best: list[float] = np.sort(scores[dots > 0])[::-1][: self.sizes["k"]].tolist()
        return best

    def repeat(self, watch: Stopwatch) -> int:
        n_messages = 0
        size = self.sizes["batch"]
        for batch in batches(self.stream.take(self.sizes["published"]), size):
            steps = admit(self.live, self.stream.space, batch)
            if self.sizes["part"] == "both":
                with watch:
                    self.engine.publish(steps)
                    watch.lap(f"batch of {size:,}")
            else:
                self._apart(steps, watch)
            self.live.release(steps)
            n_messages += batch.num_rows
        return n_messages

    def _apart(self, steps: Steps, watch: Stopwatch) -> None:
        """First who arrives, then who leaves; one of them is timed."""
        nobody = np.full_like(steps.arrivals, -1)
        last, clock = np.full_like(steps.lasts, steps.lasts[-1]), np.full_like(steps.clocks, steps.clocks[-1])
        arrivals = steps._replace(expired_start=np.zeros_like(steps.expired_start), expired=steps.expired[:0])
        expiries = steps._replace(arrivals=nobody, lasts=last, clocks=clock)
        for part, these in (("arrivals", arrivals), ("expiries", expiries)):
            if part == self.sizes["part"]:
                with watch:
                    self.engine.publish(these)
            else:
                self.engine.publish(these)

    def counts(self) -> Counts:
        stats = self.engine.stats()
        counted = {name: value for name, value in stats.items() if isinstance(value, int | float) and name != "bytes"}
        n = max(1, len(self.table))
        own_bytes = self.table.nbytes + stats["bytes"] - 24 * stats["buffered"]
        return {**counted, "mean_buffer": stats["buffered"] / n, "subscription_bytes": own_bytes / n}


class Subscribing(Case):
    """`subscribe_many` of `subscriptions` on a full window, through the broker, in Arrow tables; counted once."""

    unit = "subscriptions"

    def prepare(self) -> None:
        sizes = self.sizes
        stream = Stream(sizes["messages"], self.seed)
        self.source = stream.source
        first = stream.take(sizes["window"])
        weights = Weights.fit(first["text"].slice(0, _CORPUS))
        self.broker = Broker(stream.space, Window(count=sizes["window"]), weights)
        for batch in batches(first, BATCH):
            self.broker.publish(batch)
        source = subscriptions.Source.of(first.slice(0, _SOURCE))
        self.given = subscriptions.topk(source, 10**9, self.seed, k=sizes["k"])

    def check(self) -> int:
        few = next(self.given).slice(0, self.sizes["checked"])
        told = self.broker.subscribe_many(few)
        if len(told) != sum(len(self.broker.results(id)) for id in few["id"].to_pylist()):
            raise WrongAnswer("what a subscription starts with is not its result")
        return few.num_rows

    def repeat(self, watch: Stopwatch) -> int:
        n = 0
        while n < self.sizes["subscriptions"]:
            table = next(self.given).slice(0, self.sizes["subscriptions"] - n)
            with watch:
                self.broker.subscribe_many(table)
            n += table.num_rows
        return n

    def counts(self) -> Counts:
        stats = self.broker.stats()["engines"]["topk"]
        return {name: value for name, value in stats.items() if isinstance(value, int | float)}
