"""Messages through `Broker.publish`, the way callers send them."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.cases.messages import Stream, as_messages, batches
from bench.figure import Case, Counts, Stopwatch, WrongAnswer
from bench.judge import Judge
from nearcast import Broker, Updates, Weights, Window
from nearcast.model.codec import subscription_from_json
from nearcast.workload import subscriptions
from nearcast.workload.schema import BOX, SUBSCRIPTIONS

_CORPUS = 1000


class Publish(Case):
    """A broker with a full window of `window` messages and `subscriptions` subscriptions of one `kind`, or "mixed".

    A repetition publishes Arrow batches of `batch` messages: `pairs` / `subscriptions` messages in all, but no fewer
    than `least` and no more than `most`.
    """

    unit = "messages"

    def prepare(self) -> None:
        sizes = self.sizes
        self.stream = Stream(sizes["messages"], self.seed)
        self.source = self.stream.source
        first = self.stream.take(max(sizes["window"], _CORPUS))
        self.corpus = first["text"].slice(0, _CORPUS).to_pylist()
        window = Window(count=sizes["window"])
        self.broker = Broker(self.stream.space, window, Weights.fit(self.corpus))
        self.broker.publish(first)
        self.held = first.slice(first.num_rows - sizes["window"])
        self.subscribe(first)
        wanted = sizes["pairs"] // max(1, sizes["subscriptions"])
        self.n_messages = min(sizes["most"], max(sizes["least"], wanted))

    def subscribe(self, messages: pa.Table) -> None:
        """Register all."""
        n, kind = self.sizes["subscriptions"], self.sizes["kind"]
        shares = None if kind == "mixed" else {kind: 1.0}
        source, bounds = subscriptions.Source.of(messages), self.stream.space.bounds
        made = subscriptions.mixed(source, n, self.seed, shares=shares, bounds=bounds)
        self.registered = pa.concat_tables([SUBSCRIPTIONS.empty_table(), *made])
        rejects = self.broker.subscribe_many(self.registered).rejects
        if rejects:
            raise WrongAnswer(f"a subscription was refused: {rejects[0]}")

    def check(self) -> int:
        """What is told over some batches to a sample: subscriptions all along the table, and some that heard."""
        arriving = self.stream.take(max(self.sizes["batch"], 100))
        told = [self.broker.publish(batch).to_arrow() for batch in batches(arriving, self.sizes["batch"])]
        told = [table for table in told if table.num_rows]
        none = np.zeros(0, np.int64)
        ids = np.unique(np.concatenate([none, *(table["subscription"].to_numpy() for table in told)]))
        if not self.registered.num_rows:
            if ids.size:
                raise WrongAnswer("updates without subscriptions")
            return int(arriving.num_rows)
        spread = np.linspace(0, self.registered.num_rows - 1, self.sizes["checked"]).astype(np.int64)
        heard = ids[np.linspace(0, ids.size - 1, self.sizes["checked"]).astype(np.int64)] - 1 if ids.size else ids
        rows = np.unique(np.concatenate([spread, heard])).astype(np.int64)
        judge = Judge(self.stream.space, Window(count=self.sizes["window"]), self.corpus)
        judge.hold(as_messages(self.held))
        judge.subscribe(subscription_from_json(plain(row)) for row in self.registered.take(pa.array(rows)).to_pylist())
        chosen = pa.array(rows + 1)  # ids count from 1
        kept = [Updates(table.filter(pc.is_in(table["subscription"], chosen))) for table in told]
        return judge.compare(as_messages(arriving), chain.from_iterable(kept))

    def repeat(self, watch: Stopwatch) -> int:
        n = 0
        waiting = batches(self.stream.take(self.n_messages), self.sizes["batch"])
        publish = self.broker.publish
        with watch:
            for batch in waiting:
                publish(batch)
                watch.lap("batch")
                n += batch.num_rows
        return n

    def counts(self) -> Counts:
        stats = self.broker.stats()
        counted: Counts = {f"{name} bytes": value for name, value in stats["bytes"].items()}
        for kind, engine in stats["engines"].items():
            if stats["subscriptions"][kind]:
                counted |= {f"{kind} {name}": value for name, value in engine.items() if name != "engine"}
        return {**counted, "live": stats["messages"]["live"]}


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a subscriptions table as its JSON form."""
    given = {name: value for name, value in row.items() if value is not None}
    if "min_lon" in given:
        given["region"] = [given.pop(name) for name in BOX]
    return given
