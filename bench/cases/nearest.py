"""`Nearest` subscriptions: what arrivals, expiries and the following of balls cost an engine by itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from bench.cases.messages import Stream, admit, batches
from bench.cases.within import STOP_WORDS, compare
from bench.figure import Case, Counts, Stopwatch
from nearcast import Window
from nearcast.columns.arena import Ints
from nearcast.columns.decode_subscriptions import Rules, decode_subscriptions
from nearcast.columns.subscription_tables import PointRows, PointTable
from nearcast.engines.contract import EngineContext
from nearcast.engines.exact import NEAREST
from nearcast.engines.nearest.aoiq import AoiqSettings
from nearcast.engines.nearest.engine import NearestEngine
from nearcast.engines.nearest.grid import GridSettings
from nearcast.engines.nearest.settings import NearestSettings
from nearcast.engines.oracle import KeptOracle
from nearcast.model.kinds import Kind
from nearcast.text.vocabulary import Vocabulary
from nearcast.text.words import from_lists
from nearcast.window.live import LiveMessages, Steps
from nearcast.workload import subscriptions

BATCH = 1000
DATA = ("tweets_2021_2022", "places_gnis_us", "checkins_gowalla_20news_words")
PLACES = "poi_simplegeo_us"
LINES = {name: {"engine": engine} for name, engine in (
    ("AOIQ-tree", "nearest"), ("IQ-Tree", "iq_tree"), ("AP-Tree", "ap_tree"), ("FAST-style", "fast"))}  # fmt: skip
WORKERS = {name: {"engine": engine} for name, engine in (
    ("grid and words", "nearest"), ("words only", "keyword"), ("space only", "space"))}  # fmt: skip
ALL = {"match": "all", "messages": DATA[0], "subscriptions": 500_000, "live": 100_000, "published": 10_000,
       "checked": 20, "engine": "nearest"}  # fmt: skip
ANY = {"match": "any", "messages": PLACES, "subscriptions": 300_000, "before": 300_000, "published": 10_000,
       "checked": 20, "engine": "nearest"}  # fmt: skip
TINY_ALL = {"messages": "zipf", "subscriptions": 1_500, "live": 1_000, "published": 500, "checked": 100}
TINY_ANY = {"messages": "zipf", "subscriptions": 1_500, "before": 1_000, "published": 500, "checked": 100}

_SOURCE = 300_000  # messages that subscriptions are drawn from
_DRIFT = (0.0001, 0.01)  # how far messages lie from where they were drawn, by the diagonal of the space


def engine_class(name: str) -> Callable[..., NearestEngine]:
    """Makes an engine from its table, context and settings."""
    if name in ("nearest", "boxed"):
        return NearestEngine
    if name == "keyword":
        from bench.rivals.words_only import WordsOnlyEngine

        return WordsOnlyEngine
    if name == "regions":
        from bench.rivals.region_lists import RegionListsEngine

        return RegionListsEngine
    if name == "space":
        from bench.rivals.space_only import SpaceOnlyEngine

        return SpaceOnlyEngine
    from bench.rivals.all import BY_NAME
    from bench.rivals.balls import BallEngine, ap_tree

    return partial(BallEngine, ap_tree if name == "ap_tree" else BY_NAME[name])


class Watching(Case):
    """`subscriptions` subscriptions of `match` words in the engine `engine`; a repetition is `published` messages.

    With `live`, this many messages live, and twice as many were published before; without it there is no window, and
    `before` messages were. Rivals take over from our own engine after that. Messages for all words lie a little off the
    places that they were drawn from, as in CkQST 4.1. `keep` says how many of each
    result are kept: by "cost" or "range", or "k", "2k".
    """

    unit = "messages"

    def prepare(self) -> None:
        sizes = self.sizes
        self.stream = Stream(sizes["messages"], self.seed)
        self.source = self.stream.source
        self.rng = np.random.default_rng(self.seed)
        self.vocabulary = Vocabulary()
        live = sizes.get("live")
        self.window = Window(count=live) if live else None
        self.live = LiveMessages(self.stream.space, self.window, self.vocabulary)
        self.context = EngineContext(self.stream.space, self.vocabulary, self.live)
        self.table = PointTable(self.vocabulary, Kind.NEAREST)
        self.engine = self.make("nearest")
        self.register()
        for batch in batches(self.take(sizes.get("before", 2 * (live or 0))), BATCH):
            self.publish(admit(self.live, self.stream.space, batch))
        if sizes["engine"] != "nearest":
            before, self.engine = self.engine.state(), self.make(sizes["engine"])
            self.engine.load(before)
            self.engine.refile()

    def make(self, name: str) -> NearestEngine:
        """An engine without subscriptions."""
        return engine_class(name)(self.table, self.context, settings=self.settings_of(name))

    def settings_of(self, name: str) -> NearestSettings:
        """The settings that the sizes of this case ask for."""
        fields = {"words": "m", "height": "height", "update_ratio": "theta"}
        aoiq = AoiqSettings(**{field: self.sizes[key] for field, key in fields.items() if key in self.sizes})
        grid = GridSettings(finest=0 if name == "boxed" else self.sizes.get("finest"))
        strategy, share = {"cost": ("cost", 0.0), "range": ("range", 0.0), "k": ("kmax", 1.0), "2k": ("kmax", 2.0)}[
            self.sizes.get("keep", "cost")
        ]
        return NearestSettings(aoiq, grid, strategy, share)

    def register(self) -> None:
        """Write the subscriptions to the table and file them."""
        sizes = self.sizes
        n = sizes["subscriptions"]
        source = subscriptions.Source.of(self.stream.take(min(_SOURCE, 2 * n)), STOP_WORDS.split())
        n_words, match, most = sizes.get("n_words"), sizes["match"], sizes.get("k")
        k = None if most is None else (1 if match == "any" else most, most)
        words = (1, 5) if n_words is None else (n_words, n_words)
        drawn = subscriptions.nearest(source, n, self.seed, match=match, k=k, words=words)
        for given in drawn:
            batch = decode_subscriptions(given, Rules(self.stream.space, self.window is not None, None))
            for part in batch.parts:
                assert isinstance(part.given, PointRows)
                first = len(self.table)
                numbers = np.arange(first, first + len(part.ids), dtype=np.int32)
                terms = self.vocabulary.encode(from_lists(part.words))
                self.engine.insert(self.table.insert(part.given, terms, numbers, self.live.last))

    def take(self, n: int) -> pa.Table:
        """The next messages."""
        table = self.stream.take(n)
        if self.sizes["match"] == "any":
            return table
        x0, y0, x1, y1 = self.stream.space.bounds
        angle = self.rng.uniform(0, 2 * np.pi, n)
        length = self.rng.uniform(*_DRIFT, n) * np.hypot(x1 - x0, y1 - y0)
        lon = np.clip(table["lon"].to_numpy() + np.cos(angle) * length, x0, x1)
        lat = np.clip(table["lat"].to_numpy() + np.sin(angle) * length, y0, y1)
        return table.set_column(1, "lon", pa.array(lon)).set_column(2, "lat", pa.array(lat))

    def publish(self, steps: Steps) -> Any:
        """Let the engine see events."""
        changes = self.engine.publish(steps)
        self.live.release(steps)
        return changes

    def check(self) -> int:
        """The same results in a brute force, then the same messages."""
        right = KeptOracle(NEAREST, self.table, self.context)
        right.results.policy = self.engine.results.policy
        right.results.load({name: array.copy() for name, array in self.engine.results.state().items()})
        steps = admit(self.live, self.stream.space, self.take(self.sizes["checked"]))
        compare(self.engine.publish(steps), right.publish(steps))
        self.live.release(steps)
        return int(self.sizes["checked"])

    def repeat(self, watch: Stopwatch) -> int:
        n, close = 0, self.engine.close_batch

        def closing() -> None:
            watch.lap("processing")
            close()
            watch.lap("index updating")

        self.engine.close_batch = closing  # type: ignore[method-assign]
        try:
            for batch in batches(self.take(self.sizes["published"]), BATCH):
                steps = admit(self.live, self.stream.space, batch)
                with watch:
                    self.engine.publish(steps)
                self.live.release(steps)
                n += batch.num_rows
        finally:
            self.engine.close_batch = close  # type: ignore[method-assign]
        return n

    def counts(self) -> Counts:
        stats, n = self.engine.stats(), max(1, len(self.table))
        names = ("candidates", "kept", "expired", "refills", "updates", "buffered")
        inner = stats[self.sizes["match"]]
        more = {name: inner[name] for name in ("touched", "entries", "lists", "blocks") if name in inner}
        own = (self.table.nbytes + stats["bytes"] - 24 * stats["buffered"]) / n
        return {**{name: stats[name] for name in names}, **more, "index_bytes": inner["bytes"], "own_bytes": own}


class Expiring(Watching):
    """The paper's EOPT: messages leave, and results that lack some are found again; the arrivals are not timed."""

    def repeat(self, watch: Stopwatch) -> int:
        n = 0
        for batch in batches(self.take(self.sizes["published"]), BATCH):
            steps = admit(self.live, self.stream.space, batch)
            nobody = np.full_like(steps.arrivals, -1)
            last, clock = np.full_like(steps.lasts, steps.lasts[-1]), np.full_like(steps.clocks, steps.clocks[-1])
            none = np.zeros_like(steps.expired_start)
            self.engine.publish(steps._replace(expired_start=none, expired=steps.expired[:0]))
            with watch:
                self.engine.publish(steps._replace(arrivals=nobody, lasts=last, clocks=clock))
            self.live.release(steps)
            n += batch.num_rows
        return n


class Building(Watching):
    """Construction: a repetition files all subscriptions of all words again, by the balls that they have."""

    unit = "subscriptions"

    def repeat(self, watch: Stopwatch) -> int:
        slots: Ints = self.table.used_slots
        with watch:
            self.engine.all_words.build(self.engine.filed, self.table.layout, self.engine.results.layout.buffers, slots)
        return slots.size
