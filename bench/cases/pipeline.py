"""Batches of messages through all shards of a pipeline: on Spark, or one after another in this process."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import weakref
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.cases.messages import Stream
from bench.figure import Case, Counts, Stopwatch, WrongAnswer
from nearcast import Broker, Window
from nearcast.cluster.intake import Intake
from nearcast.cluster.log import Log
from nearcast.cluster.outcome_files import updates_file
from nearcast.cluster.pipeline import Options, run
from nearcast.cluster.session import embedded_master, start_session
from nearcast.cluster.settling import settle
from nearcast.cluster.shard import Shard
from nearcast.cluster.sources import Input, find_files
from nearcast.cluster.store import Store, read_table
from nearcast.cluster.turn import new_broker
from nearcast.cluster.turn_files import read_route, read_turn
from nearcast.workload import subscriptions
from nearcast.workload.schema import SUBSCRIPTIONS

# One of a hundred keeps a result: while the window fills, each of these is told of 20 messages and more for every
# doubling, which with a million of them is gigabytes a batch.
SHARES = {"within": 96, "similar": 1, "topk": 1, "nearest_all": 1, "nearest_any": 1}

_LOADED = 50_000  # rows of a batch while subscriptions are taken up


class Pipeline(Case):
    """`subscriptions` of all kinds by their `shares`, in `shards`; a repetition sends `batches` of `batch` messages.

    With `spark` a repetition is a whole run of the pipeline on a Spark that is up already, and what passes between two
    batches is a lap, and so is the slowest shard's part of it; without, the same shards process the same files in turn,
    and a batch in all of them is a lap.
    """

    unit = "messages"

    def prepare(self) -> None:
        sizes = self.sizes
        _stop_spark()  # that of a case before has its files where there is no folder any more
        self.folder = Path(tempfile.mkdtemp(prefix="nearcast-bench-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)  # gone with the case
        self.stream = Stream(sizes["messages"], self.seed)
        self.source = self.stream.source
        first = self.stream.take(max(sizes["window"], sizes["batch"]))
        source, bounds = subscriptions.Source.of(first), self.stream.space.bounds
        made = subscriptions.mixed(source, sizes["subscriptions"], self.seed, shares=sizes["shares"], bounds=bounds)
        self.registered = pa.concat_tables([SUBSCRIPTIONS.empty_table(), *made])
        self.sent: list[pa.Table] = []
        read = {"subscriptions": "subscriptions", "in": "messages"}
        self.options = Options(
            inputs=tuple(Input(str(self.folder / name), role) for name, role in read.items()),
            out=self.folder / "out", space=self.stream.space, window=Window(count=sizes["window"]),
            shards=sizes["shards"], batch_rows=sizes["batch"], master=sizes["master"], balance=float("inf"),
        )  # fmt: skip
        (self.folder / "subscriptions").mkdir()
        pq.write_table(self.registered, self.folder / "subscriptions" / "all.parquet")
        if not sizes["spark"]:
            (self.folder / "in").mkdir()
            self.store = Store(self.options.out / "_checkpoint")
            self.settings = settle(self.store, self.options)
            self.shards = [Shard(i, new_broker(self.store, self.settings)) for i in range(sizes["shards"])]
        self.send(first)
        self.process(Stopwatch(), _LOADED)

    def send(self, messages: pa.Table) -> None:
        """Put messages where the pipeline finds them."""
        (self.folder / "in").mkdir(exist_ok=True)
        self.sent.append(messages)
        pq.write_table(messages, self.folder / "in" / f"{len(self.sent):06d}.parquet")

    def process(self, watch: Stopwatch, batch_rows: int | None = None) -> None:
        """Process what was sent."""
        options = replace(self.options, batch_rows=batch_rows or self.sizes["batch"])
        if self.sizes["spark"]:
            seen = 0

            def noted(stage: str, totals: Any, head: Any) -> None:
                nonlocal seen
                if totals.next_batch > seen:
                    watch.lap("batch" if seen else "start")
                    seen = totals.next_batch

            with watch:
                run(options, noted)
            lines = (self.options.out / "metrics.jsonl").read_text().splitlines()
            told = [json.loads(line) for line in lines[-self.sizes["batches"] :]]
            times = [(max(line["shard_seconds"]), max(line["shard_work"])) for line in told]
            watch.laps["slowest shard"] = [(int(1e9 * wall), int(1e9 * cpu)) for wall, cpu in times]
            return
        with watch:
            intake = Intake(self.store, options.batch_rows)
            head = intake.take(intake.new_files(find_files(options.inputs)))
            if not hasattr(self, "log"):
                self.log = Log(self.store, len(self.shards), self.options.space, self.options.partition, 0, 0)
            for number in range(self.log.next_turn, self.log.next_turn + head.batches - self.log.next_batch):
                self.log.extend(head.batches, number - 1)
                turn = read_turn(self.store, number)
                batch, route = read_table(self.store.batch(turn.what)), read_route(self.store, number)
                for shard in self.shards:
                    with updates_file(self.options.out, turn.what, shard.index, "parquet") as updates:
                        shard.apply(batch, route, updates.add)
                watch.lap("batch")

    def check(self) -> int:
        """All updates so far of a sample of subscriptions, against one broker that holds only these."""
        step = max(1, self.registered.num_rows // self.sizes["checked"])
        chosen = self.registered.take(pa.array(range(0, self.registered.num_rows, step)))
        broker = Broker(self.stream.space, Window(count=self.sizes["window"]))
        broker.subscribe_many(chosen)
        expected: dict[Any, list[Any]] = defaultdict(list)
        for messages in self.sent:
            for update in broker.publish(messages):
                expected[update.subscription].append((update.message, update.sign, update.score, update.ts))
        table = pq.read_table(self.options.out / "updates")
        table = table.filter(pc.is_in(table["subscription"], chosen["id"].combine_chunks()))
        told: dict[Any, list[Any]] = defaultdict(list)
        for row in table.sort_by([("batch", "ascending"), ("seq", "ascending")]).to_pylist():
            told[row["subscription"]].append((row["message"], row["sign"], row["score"], row["ts"]))
        if told != expected:
            raise WrongAnswer("the pipeline says something else than one broker")
        return sum(map(len, expected.values()))

    def repeat(self, watch: Stopwatch) -> int:
        n = self.sizes["batch"] * self.sizes["batches"]
        self.send(self.stream.take(n))
        self.process(watch)
        return n

    def counts(self) -> Counts:
        places = (self.options.out / "updates").glob("*.parquet")
        return {"updates": sum(pq.read_metadata(place).num_rows for place in places)}


class Restart(Pipeline):
    """What a run that was ended has to do before it answers again: a repetition begins with a Spark that has no shards.

    Before, `history` batches were processed. Timed is a run over one more batch from when Spark is up, which it is when
    all executors have counted rows: Python starts on them, shards are restored from their snapshots and the log, then
    the batch is answered.
    """

    def prepare(self) -> None:
        super().prepare()
        self.send(self.stream.take(self.sizes["batch"] * self.sizes["history"]))
        self.process(Stopwatch())

    def repeat(self, watch: Stopwatch) -> int:
        n_shards = self.sizes["shards"]
        _stop_spark()  # and with it the workers that hold the shards
        master = self.sizes["master"] or embedded_master(n_shards)
        spark = start_session(master, n_shards, self.folder / "session")
        n_up = n_shards if master.startswith("local-cluster") else 0
        while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() <= n_up:  # the driver is counted, too
            time.sleep(0.1)
        spark.range(0, n_shards, 1, n_shards).count()
        n = super().repeat(watch)
        _stop_spark()  # its files are gone with the case
        return n


def _stop_spark() -> None:
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        running.stop()
