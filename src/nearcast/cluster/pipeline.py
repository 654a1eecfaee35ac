"""Reads, wires and starts Spark: files and options go in, folders of updates and rejects come out.

What is promised, whenever and however often a run is stopped, killed and started again with the same command:

- Every update is in the output once (`turn` says how), and every input row is accepted, late or rejected, once.
- The answers are those of a single broker that is given the events in the order that `intake` states.
- Running over stored files (`follow=False`) ends by itself; running again finds nothing to do, or takes what is new.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nearcast as nc
from nearcast.cluster.balance import Balance
from nearcast.cluster.intake import BATCH_ROWS, Head, Intake, Stage, Unread
from nearcast.cluster.log import Log
from nearcast.cluster.outcome_files import drop_outcomes
from nearcast.cluster.progress import Totals, metrics, read_totals, record_step
from nearcast.cluster.redis_streams import RedisStream, enter_updates
from nearcast.cluster.session import embedded_master, start_session
from nearcast.cluster.settling import settle
from nearcast.cluster.sources import Input, SourceFile, find_files
from nearcast.cluster.staging import is_large, on_spark
from nearcast.cluster.store import Store, end_line, read_json
from nearcast.cluster.streams import is_stream, stream_at
from nearcast.cluster.turn import Settings, load_weights
from nearcast.cluster.warm import compile_aside
from nearcast.errors import NearcastError, SetupError
from nearcast.partition.partition import SplitSettings, shard_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WORLD = (-180.0, -90.0, 180.0, 90.0)
EARTH = nc.Space(WORLD, "haversine")
SNAPSHOT_EVERY = 10  # turns
BALANCE = 0.2
BALANCE_AFTER_S = 5.0
_LOOK_S = 0.5  # how often watched folders are looked at
_ENDED_S = 0.1  # how often a run over stored files looks whether it is done
_TICK_S = 30.0  # Spark ends Python workers that were idle for a minute, and the shards in them are lost


@dataclass(frozen=True, slots=True)
class Options:
    """What to run.

    Parameters
    ----------
    inputs
        Files, folders and streams (``redis://HOST:PORT/NAME``, ``kafka://HOST:PORT/TOPIC``) to read.
    out
        Folder for the output.
    checkpoint
        Folder for everything a restart needs; inside `out` when None.
    space, window
        As for `Broker`.
    corpus
        Files whose texts fix the weights of words; none: every word weighs 1.
    shards
        Into how many parts subscriptions are split. When None, what the checkpoint has, or `default_shards`. Another
        number than the checkpoint has changes it.
    partition
        How subscriptions are split: one of `partition.METHODS`.
    theta, gamma1, gamma2
        How finely, as in `partition.Settings`; asked for when the partition is fitted, once for each checkpoint.
    balance, balance_after
        Subscriptions move when the work of shards differs by more than this share of its mean, judged whenever shards
        have spent this many processor seconds in the mean; infinite: never.
    master
        A Spark master; one inside this machine when None.
    follow
        Go on watching `inputs` for new files.
    updates_format
        ``"parquet"`` or ``"jsonl"``.
    updates_to
        A stream to enter updates in, besides the files.
    batch_rows, snapshot_every
        Rows per batch, and batches from one snapshot of a shard to the next.
    """

    inputs: tuple[Input, ...]
    out: Path
    checkpoint: Path | None = None
    space: nc.Space = EARTH
    window: nc.Window | None = None
    corpus: tuple[Input, ...] = ()
    shards: int | None = None
    partition: str = "dkm"
    theta: int = SplitSettings().theta
    gamma1: int = SplitSettings().gamma1
    gamma2: int = SplitSettings().gamma2
    balance: float = BALANCE
    balance_after: float = BALANCE_AFTER_S
    master: str | None = None
    follow: bool = False
    updates_format: str = "parquet"
    updates_to: str | None = None
    batch_rows: int = BATCH_ROWS
    snapshot_every: int = SNAPSHOT_EVERY


@dataclass(frozen=True, slots=True)
class Result:
    """What a run did."""

    totals: Totals  # since the checkpoint was made
    head: Head
    before: Totals  # totals when this run started
    changed: tuple[str, ...]  # files that changed after they were read
    seconds: float
    n_shards: int
    stopped: bool = False  # by the user, before everything was done


Watch = Callable[[str, Totals, Head], None]  # called with what is going on, as it goes on


def run(options: Options, watch: Watch = lambda stage, totals, head: None) -> Result:
    """Run the pipeline to its end, or with `follow` until interrupted.

    Parameters
    ----------
    options
        What to run.
    watch
        Told about every step: the stage (``"start"``, ``"compile"``, ``"read"``, ``"run"``), the totals, and how much
        input is ready.

    Raises
    ------
    InvalidInput
        A path or option that cannot be honoured, or that differs from what the checkpoint was made with.
    SetupError
        Spark or Java is missing or fails.
    """
    began = time.monotonic()
    store = Store((options.checkpoint or options.out / "_checkpoint").absolute())
    inputs = Inputs(options)
    files = inputs.files()
    with store.locked():
        settings = settle(store, options)
        store = Store(store.checkpoint, settings.era)
        store.forget_other_eras()
        (options.out / "updates").mkdir(parents=True, exist_ok=True)
        intake = Intake(store, options.batch_rows)
        store.clear(options.out, intake.head.batches, intake.head.runs)
        end_line(options.out / "metrics.jsonl")
        before = read_totals(store)
        if settings.era and store.last_step() is None:
            drop_outcomes(options.out, before.next_batch)
        new = intake.new_files(files)
        changed = tuple(file.path for file in intake.changed_files(files))
        stopped = False
        inputs.connect_sink(store)
        if options.follow or new or intake.unread(inputs.streams) or before.next_batch < intake.head.batches:
            pipeline = _Pipeline(store, settings, intake, inputs, watch, before)
            stopped = pipeline.work([] if options.follow else new)  # a followed file may still be growing
        totals = read_totals(store)
        if not options.follow and not stopped and totals.next_batch < intake.head.batches:
            raise SetupError(
                f"Spark ended at batch {totals.next_batch} of {intake.head.batches}: run the command again"
            )
        seconds = time.monotonic() - began
        return Result(totals, intake.head, before, changed, seconds, settings.n_shards, stopped)


class Inputs:
    """What a run reads and where else it writes: files, and streams that are connected to."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.streams = {given: stream_at(given.path) for given in options.inputs if is_stream(given.path)}
        self.sink: RedisStream | None = None
        checkpoint = options.checkpoint or options.out / "_checkpoint"
        self._own = (options.out, checkpoint)

    def connect_sink(self, store: Store) -> None:
        """Connect to where updates go besides the files, and bring that up to date."""
        if self.options.updates_to:
            self.sink = RedisStream(self.options.updates_to, read_json(store.run)["id"])
            enter_updates(self.sink, self.options.out, read_totals(store).next_batch)

    def files(self) -> list[SourceFile]:
        """All files there are now."""
        return find_files([given for given in self.options.inputs if given not in self.streams], self._own)


class _Pipeline:
    """One run under way: the Spark query, and the intake that feeds it."""

    def __init__(
        self, store: Store, settings: Settings, intake: Intake, inputs: Inputs, watch: Watch, totals: Totals
    ) -> None:
        options = inputs.options
        self._store = store
        self._settings = settings
        self._intake = intake
        self._inputs = inputs
        self._options = options
        self._watch = watch
        self._totals = totals
        self._spark_log = store.session / "spark.log"
        weights = load_weights(store.weights) if settings.has_weights else None
        at = totals.next_turn, totals.next_batch
        splitting = SplitSettings(options.theta, options.gamma1, options.gamma2, window=options.window is not None)
        self._log = Log(store, settings.n_shards, options.space, options.partition, *at, weights, splitting)
        self._balance = Balance(settings.n_shards, options.balance, options.balance_after)

    def work(self, new: list[SourceFile]) -> bool:
        """Read `new` files and streams, while Spark starts if they are small, and run to the end; was it stopped?"""
        problems: list[BaseException] = []
        unread = [] if self._options.follow else self._intake.unread(self._inputs.streams)
        by_spark = is_large(new, unread)
        early = ([], []) if by_spark else (new, unread)
        reading = threading.Thread(target=self._read, args=(*early, problems), name="nearcast-intake", daemon=True)
        warming = threading.Thread(target=compile_aside, name="nearcast-warm", daemon=True)
        self._watch("start", self._totals, self._intake.head)
        reading.start()
        master = self._options.master or embedded_master(self._settings.n_shards)
        if master.startswith("local"):
            warming.start()
        spark = start_session(master, self._settings.n_shards, self._store.session)
        reading.join()
        if problems:
            raise problems[0]
        if warming.is_alive():
            self._watch("compile", self._totals, self._intake.head)
            warming.join()
        if by_spark:
            self._watch("read", self._totals, self._intake.head)
            try:
                self._intake.take(new, unread, self._on_spark(spark))
            except (NearcastError, OSError):
                raise
            except Exception as error:  # whatever Spark throws when it breaks down
                raise self._gave_up(error) from error
        self._extend()
        self._watch("run", self._totals, self._intake.head)
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]

        from nearcast.cluster.stream import reports

        n_shards = self._settings.n_shards
        keys = [shard_key(shard, n_shards) for shard in range(n_shards)]
        frame = reports(spark, self._store, self._settings.era, self._settings.id, keys)
        writer = frame.writeStream.outputMode("update").option("checkpointLocation", str(self._store.spark))
        try:
            query = writer.foreachBatch(self._note).start()
        except Exception as error:
            raise self._gave_up(error) from error
        try:
            self._wait(query, spark)
        except KeyboardInterrupt:
            return True
        except (Py4JError, ConnectionError) as error:
            said = f"Spark's Java process has ended; run the same command to resume (see {self._spark_log})"
            raise SetupError(said) from error
        finally:
            with contextlib.suppress(Py4JError, ConnectionError):
                query.stop()
        return False

    def _read(self, files: list[SourceFile], unread: list[Unread], problems: list[BaseException]) -> None:
        try:
            if files or unread:
                self._intake.take(files, unread)
        except BaseException as error:
            problems.append(error)

    def _on_spark(self, spark: SparkSession) -> Stage:
        return on_spark(spark, self._store.staged)

    def _wait(self, query: StreamingQuery, spark: SparkSession) -> None:
        """Wait until everything is processed; with `follow`, feed the query what is new meanwhile.

        Streams are looked at from the second look on, which finds the files that were there at the start: whoever
        subscribes in a file sees what waits in a stream.
        """
        from pyspark.errors import StreamingQueryException

        settling: dict[str, SourceFile] = {}
        looks = 0
        busy_at = time.monotonic()
        try:
            while not query.awaitTermination(_LOOK_S if self._options.follow else _ENDED_S):  # type: ignore[arg-type]
                if not self._options.follow:
                    if self._totals.next_turn == self._log.next_turn and self._log.next_batch == self._n_batches:
                        query.processAllAvailable()  # Spark commits what was last noted
                        return
                    continue
                new = self._intake.new_files(self._inputs.files())
                ready = [file for file in new if settling.get(file.path) == file]  # unchanged since the last look
                settling = {file.path: file for file in new}
                looks += 1
                unread = self._intake.unread(self._inputs.streams) if looks > 1 else []
                n_before = self._n_batches
                if ready or unread:
                    waited = unread if looks == 2 else []
                    self._intake.take(ready, unread, self._on_spark(spark) if is_large(ready, waited) else None)
                if self._n_batches > n_before:
                    self._watch("run", self._totals, self._intake.head)
                    busy_at = time.monotonic()
                elif self._n_batches > 0 and time.monotonic() - busy_at > _TICK_S:
                    self._intake.tick()
                    busy_at = time.monotonic()
                self._extend()
        except StreamingQueryException as error:
            raise self._gave_up(error) from error

    @property
    def _n_batches(self) -> int:
        return self._intake.head.batches

    def _extend(self) -> None:
        self._log.extend(self._n_batches, self._totals.next_turn)

    def _gave_up(self, error: Exception) -> SetupError:
        return SetupError(f"Spark failed: {_cause(str(error))} (see {self._spark_log})")

    def _note(self, frame: DataFrame, number: int) -> None:
        """Record what a micro-batch did, and see to what comes next; Spark calls it after every one."""
        said = {row.shard: json.loads(row.report) for row in frame.collect()}
        before, self._totals = self._totals, record_step(self._store, number, said)
        if self._totals.next_turn > before.next_turn:
            line = metrics(before, self._totals, said, self._intake.head.rows - self._totals.rows)
            with open(self._options.out / "metrics.jsonl", "a") as file:
                file.write(json.dumps(line) + "\n")
            self._keep_balance(said)
        if self._inputs.sink is not None:
            enter_updates(self._inputs.sink, self._options.out, self._totals.next_batch)
        self._extend()
        self._watch("run", self._totals, self._intake.head)

    def _keep_balance(self, said: dict[int, dict[str, Any]]) -> None:
        """Let shards that have too much to do give to others."""
        clocks = [report["clock"] for report in said.values() if report["clock"] is not None]
        if clocks:
            self._log.forget_ended(min(clocks))
        self._balance.add(self._totals.next_turn, [said[shard]["work"] for shard in sorted(said)])
        carried_out = self._log.move(self._balance.order)
        if carried_out is not None:
            self._balance.wait(carried_out)


def _cause(text: str) -> str:
    """The line of Spark's many that says what went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception", "InvalidInput"))]
    return (named or lines or ["no reason given"])[-1][:300]
