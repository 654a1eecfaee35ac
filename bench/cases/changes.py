"""Messages that change and are withdrawn, through `Broker.update` and `Broker.retract`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np
import pyarrow as pa

from bench.cases.messages import S1M, Stream, batches
from bench.figure import Case, Counts, Stopwatch, WrongAnswer
from bench.judge import same_score
from nearcast import Broker, Weights, Window
from nearcast.engines.exact import NEAREST, TOPK
from nearcast.engines.oracle import KeptOracle, SimilarOracle, WithinOracle
from nearcast.workload import s1m, subscriptions

_BATCH = 1000
_CORPUS = 100_000
_SOURCE = 300_000
_ORACLES = {
    "within": WithinOracle,
    "similar": SimilarOracle,
    "topk": partial(KeptOracle, TOPK),
    "nearest": partial(KeptOracle, NEAREST),
}


class Changing(Case):
    """`subscriptions` of one `kind` over `window` live messages, which have no end of their own.

    A repetition is `changed` updates, `batch` at a time: messages of the stream take the places of live ones, drawn at
    random. After each batch as many of them as `retracted` are withdrawn one by one, and come back with the next.
    `loaded` says how the window was filled: by "update" or by "publish", which results must recover from.
    """

    unit = "updates and retractions"

    def prepare(self) -> None:
        sizes = self.sizes
        self.stream = Stream(sizes["messages"], self.seed)
        self.source = self.stream.source
        self.rng = np.random.default_rng(self.seed)
        first = self.stream.take(sizes["window"])
        self.versions = [first]
        self.newest = np.arange(sizes["window"])  # by message: which row of all versions is the live one
        self.weights = Weights.fit(first["text"].slice(0, _CORPUS))
        self.broker = Broker(self.stream.space, Window(), self.weights)
        take = self.broker.update if sizes["loaded"] == "update" else self.broker.publish
        for batch in batches(first, 16 * _BATCH):
            take(batch)
        self.registered = list(self.asked(subscriptions.Source.of(first.slice(0, _SOURCE))))
        for table in self.registered:
            rejects = self.broker.subscribe_many(table).rejects
            if rejects:
                raise WrongAnswer(f"a subscription was refused: {rejects[0]}")

    def asked(self, source: subscriptions.Source) -> Iterable[pa.Table]:
        """Tables of all subscriptions; those of `s1m` are its own."""
        n, kind, k = self.sizes["subscriptions"], self.sizes["kind"], self.sizes["k"]
        if self.sizes["messages"] == S1M:
            return s1m.subscriptions(n, self.seed)
        own = {"topk": {"k": k}, "within": {}}.get(kind, {"k": (k, k)})
        return subscriptions.mixed(source, n, self.seed, shares={kind: 1.0}, bounds=self.stream.space.bounds, **own)

    def changes(self, n: int) -> pa.Table:
        """New versions of `n` messages."""
        taken = self.stream.take(n)
        which = self.rng.integers(0, self.newest.size, n)
        self.newest[which] = sum(table.num_rows for table in self.versions) + np.arange(n)
        self.versions.append(taken.set_column(0, "id", pa.array(which + 1)))
        return self.versions[-1]

    def check(self) -> int:
        """The results of some subscriptions against brute force over the messages that live by now."""
        for batch in batches(self.changes(2 * self.sizes["batch"]), self.sizes["batch"]):
            self.broker.update(batch)
        chosen = np.linspace(0, self.sizes["subscriptions"] - 1, self.sizes["checked"]).astype(np.int64)
        asked = pa.concat_tables(self.registered).take(pa.array(chosen))
        live = pa.concat_tables(self.versions).take(pa.array(np.sort(self.newest)))
        judge = Broker(self.stream.space, Window(), self.weights, engines=_ORACLES)
        judge.subscribe_many(asked)
        judge.publish(live)
        for id in asked["id"].to_pylist():
            ours, right = self.broker.results(id), judge.results(id)
            if len(ours) != len(right) or not all(same_score(a[1], b[1]) for a, b in zip(ours, right, strict=True)):
                raise WrongAnswer(f"subscription {id}: {ours}, but right is {right}")
        return int(chosen.size)

    def repeat(self, watch: Stopwatch) -> int:
        n, size = 0, self.sizes["batch"]
        for batch in batches(self.changes(self.sizes["changed"]), size):
            gone = np.unique(batch["id"].to_numpy())[: self.sizes["retracted"]].tolist()
            with watch:
                self.broker.update(batch)
                watch.lap("batch of updates")
                for id in gone:
                    self.broker.retract(id)
                watch.lap("retractions")
            back = batch.take(pa.array([batch["id"].index(id).as_py() for id in gone], pa.int64()))
            self.broker.update(back)
            n += batch.num_rows + len(gone)
        return n

    def counts(self) -> Counts:
        stats = self.broker.stats()
        engine = stats["engines"][self.sizes["kind"].split("_")[0]]
        counted = {name: value for name, value in engine.items() if isinstance(value, int | float)}
        return {**counted, "live": stats["messages"]["live"], "withdrawn": stats["messages"]["withdrawn"]}
