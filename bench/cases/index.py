"""The index over live messages: what arriving and expiring costs, and how long a question takes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from bench.cases.messages import Stream, admit, batches
from bench.figure import Case, Counts, Stopwatch, WrongAnswer
from bench.judge import same_score
from nearcast import Window
from nearcast.columns.decode_subscriptions import Rules, decode_subscriptions
from nearcast.columns.subscription_tables import PointRows, PointTable
from nearcast.engines.contract import EngineContext
from nearcast.engines.exact import NEAREST, TOPK
from nearcast.engines.oracle.best_live import best_live
from nearcast.model.kinds import Kind
from nearcast.text.vocabulary import Vocabulary
from nearcast.text.weights import Weights
from nearcast.text.words import from_lists
from nearcast.window.live import LiveMessages
from nearcast.workload import subscriptions

_BATCH = 1000
_CORPUS = 10_000


class Best(NamedTuple):
    """The best of all live messages."""

    slots: np.ndarray
    ranks: np.ndarray  # the score, or minus the distance


class FullWindow(Case):
    """A window of `window` messages that is full."""

    def prepare(self) -> None:
        self.stream = Stream(self.sizes["messages"], self.seed)
        self.source = self.stream.source
        first = self.stream.take(max(self.sizes["window"], _CORPUS))
        self.vocabulary = Vocabulary(Weights.fit(first["text"].slice(0, _CORPUS)))
        self.live = LiveMessages(self.stream.space, Window(count=self.sizes["window"]), self.vocabulary)
        self.context = EngineContext(self.stream.space, self.vocabulary, self.live)
        self.recent = first.slice(0, _CORPUS)
        for batch in batches(first, _BATCH):
            self.arrive(batch)
        self.table = PointTable(self.vocabulary, Kind.TOPK)
        self.n_asked = 0

    def arrive(self, batch: pa.Table) -> None:
        """Messages arrive, and as many old ones expire."""
        self.live.release(admit(self.live, self.stream.space, batch))

    def write(self, kind: str, n: int, n_words: int) -> list[int]:
        """Slots of `n` new questions of a kind, each of words of one message; fewer words where it has no more."""
        source = subscriptions.Source.of(self.recent)
        match = "any" if kind == "nearest_any" else "all"
        words = (n_words, n_words)
        made = (
            subscriptions.topk(source, n, self.seed, k=20, words=words)
            if kind == "topk"
            else subscriptions.nearest(source, n, self.seed, match=match, k=(20, 20), words=words)
        )
        (part,) = decode_subscriptions(pa.concat_tables(made), Rules(self.stream.space, True, None)).parts
        assert isinstance(part.given, PointRows)
        self.n_asked += n
        numbers = np.arange(self.n_asked - n, self.n_asked, dtype=np.int32)
        terms = self.vocabulary.encode(from_lists(part.words))
        slots: list[int] = self.table.insert(part.given, terms, numbers, 0).tolist()
        return slots

    def ask(self, kind: str, slot: int) -> Best:
        """The best 20 for a question, through the index."""
        live = self.live
        code = TOPK if kind == "topk" else NEAREST
        return Best(*best_live(code, self.table, slot, 20, self.context, live.last, live.clock))

    def scan(self, kind: str, slot: int) -> Best:
        """The same by looking at every live message."""
        space, idf, layout = self.stream.space, self.vocabulary.idf, self.live.table.layout
        row, scale = self.table.layout.rows[slot], self.table.layout.scales[slot]
        own = slice(int(row["term_start"]), int(row["term_start"]) + int(row["n_terms"]))
        asked = np.zeros(idf.size)
        asked[self.table.layout.terms[own]] = self.table.layout.counts[own] * idf[self.table.layout.terms[own]]
        slots = self.live.table.live_slots
        messages = layout.rows[slots]
        lengths = messages["n_terms"].astype(np.int64)
        owner = np.repeat(np.arange(slots.size), lengths)
        within = np.arange(owner.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        places = messages["term_start"][owner] + within
        terms = layout.terms[places]
        shared = np.bincount(owner, asked[terms] > 0, slots.size)
        need = int(row["n_terms"]) if kind == "nearest_all" else 1
        away = distances(space.metric, float(row["x"]), float(row["y"]), messages["x"], messages["y"])
        ranks = -away
        if kind == "topk":
            dots = np.bincount(owner, asked[terms] * layout.counts[places] * idf[terms], slots.size)
            with np.errstate(invalid="ignore", divide="ignore"):
                cosines = dots / (scale["norm"] * messages["norm"])
            alpha = float(scale["alpha"])
            ranks = alpha * np.maximum(0.0, 1.0 - away / space.max_distance) + (1.0 - alpha) * cosines
        kept = np.flatnonzero(shared >= need)
        best = kept[np.lexsort((-messages["sequence"][kept], -ranks[kept]))[:20]]
        return Best(slots[best], ranks[best])

    def compare(self, kind: str, slot: int) -> None:
        """The index against the scan. Of messages that score alike, within rounding, either may stand first."""
        found, right = self.ask(kind, slot), self.scan(kind, slot)
        ours, theirs = found.ranks.tolist(), right.ranks.tolist()
        alike = len(ours) == len(theirs) and all(map(same_score, ours, theirs))
        if not alike or len(set(found.slots.tolist())) != len(ours):
            raise WrongAnswer(f"{kind} question {slot}: {found}, but right is {right}")

    def counts(self) -> Counts:
        stats = self.live.index.stats()
        index_bytes = stats.pop("bytes")
        return {**stats, "live": len(self.live.table), "index_bytes": index_bytes, "live_bytes": self.live.nbytes}


class Arrivals(FullWindow):
    """`arrivals` messages a repetition, in Arrow batches of 1,000; each pushes an old one out."""

    unit = "messages"

    def check(self) -> int:
        compared = 0
        for batch in batches(self.stream.take(3 * _BATCH), _BATCH):
            self.arrive(batch)
            for kind in ("topk", "nearest_all", "nearest_any"):
                for slot in self.write(kind, 3, 2):
                    self.compare(kind, slot)
                    compared += 1
        if len(self.live.table) != self.sizes["window"]:
            raise WrongAnswer(f"{len(self.live.table)} messages live, not {self.sizes['window']}")
        return compared

    def repeat(self, watch: Stopwatch) -> int:
        arriving = batches(self.stream.take(self.sizes["arrivals"]), _BATCH)
        with watch:
            for batch in arriving:
                self.arrive(batch)
                watch.lap("batch of 1,000")
        return sum(batch.num_rows for batch in arriving)


class Questions(FullWindow):
    """`questions` questions of the setting `kind` for each number of words; some messages arrive in between."""

    unit = "questions"

    def prepare(self) -> None:
        super().prepare()
        for batch in batches(self.stream.take(max(_BATCH, self.sizes["window"] // 10)), _BATCH):
            self.arrive(batch)  # so that some of the index is new, and some of it dead
        kind = self.sizes["kind"]
        self.asked = {n_words: self.write(kind, self.sizes["questions"], n_words) for n_words in self.sizes["words"]}

    def check(self) -> int:
        sample = [slot for slots in self.asked.values() for slot in slots[: self.sizes["checked"]]]
        for slot in sample:
            self.compare(self.sizes["kind"], slot)
        return len(sample)

    def repeat(self, watch: Stopwatch) -> int:
        kind = self.sizes["kind"]
        for n_words, slots in self.asked.items():
            group = f"{n_words} word{'s' if n_words > 1 else ''}"
            with watch:
                for slot in slots:
                    self.ask(kind, slot)
                    watch.lap(group)
        return sum(map(len, self.asked.values()))


def distances(metric: str, x: float, y: float, xs: np.ndarray, ys: np.ndarray) -> np.ndarray:
    """From a place to many, written apart from `space/`."""
    if metric == "euclidean":
        plain: np.ndarray = np.hypot(xs - x, ys - y)
        return plain
    lon1, lat1, lon2, lat2 = (np.radians(value) for value in (x, y, xs, ys))
    half = np.sin((lat2 - lat1) / 2) ** 2 + np.cos(lat1) * np.cos(lat2) * np.sin((lon2 - lon1) / 2) ** 2
    metres: np.ndarray = 2 * 6_371_008.8 * np.arcsin(np.sqrt(np.minimum(1.0, half)))
    return metres
