"""`nearcast run` as a client of `nearcast.spark`: files and streams go in, folders of updates and rejects come out.

What is promised, whenever and however often a run is stopped, killed and started again with the same command:

- Every update is in the output once, and every input row is accepted, late or rejected, once.
- The answers are those of a single broker that is given the events in the order of `events`.
- Running over stored files (`follow=False`) ends by itself; running again finds nothing to do, or takes what is new.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.types import LongType, StringType

import nearcast as nc
from nearcast.errors import SetupError
from nearcast.model.analyzer import PLAIN_RULE
from nearcast.partition.balance import Balance
from nearcast.spark.frames import control_frame
from nearcast.spark.run.assigns import Assigns
from nearcast.spark.run.file_rows import EVENTS, SIDES, IdTypes, refuse_messages
from nearcast.spark.run.file_source import Pieces, stream_pieces
from nearcast.spark.run.files import Input, find_files, id_types
from nearcast.spark.run.intake import BATCH_ROWS, Intakes
from nearcast.spark.run.job_settings import Settings, record_partitions, settle
from nearcast.spark.run.job_streams import first_types, packed_streams
from nearcast.spark.run.parts import REPORT, writer
from nearcast.spark.run.totals import Record, Totals
from nearcast.spark.session.session import embedded_master, own_workers, start_session
from nearcast.spark.session.warm import compile_aside
from nearcast.spark.shards.fanout import packed_controls
from nearcast.spark.shards.repartition import repartition
from nearcast.spark.shards.store import Store
from nearcast.spark.shards.sweep import sweep
from nearcast.spark.sources import is_stream, options_of, register
from nearcast.spark.spec import spec_of, task_cpus
from nearcast.spark.stream import COUNTS, packed_answers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WORLD = (-180.0, -90.0, 180.0, 90.0)
EARTH = nc.Space(WORLD, "haversine")
SNAPSHOT_EVERY = 10  # batches
BALANCE = 0.2
BALANCE_AFTER_S = 5.0
_LOOK_S = 0.1  # how often a run looks whether it is done
_SWEEP_EVERY = 100  # batches
_CARRIERS = ("py4j.", "org.apache.spark.api.python.", "org.apache.spark.SparkException: Job aborted")  # tell of others


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
    analyzer
        What becomes of words beyond the plain rule, of messages, subscriptions and the corpus alike.
    corpus
        Files whose texts fix the weights of words; none: every word weighs 1.
    shards
        Into how many parts subscriptions are split. When None, what the checkpoint has, or `default_shards`. Another
        number than the checkpoint has changes it.
    threads
        How many cores each shard uses; as many as Spark gives to a task when None.
    partition
        How subscriptions are split at the start: ``"dkm"``, ``"keyword"``, ``"space"`` or ``"hash"``.
    balance, balance_after
        Subscriptions move when the work of shards differs by more than this share of its mean, judged whenever shards
        have worked for this many seconds in the mean; infinite: never.
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
    analyzer: nc.Analyzer = PLAIN_RULE
    corpus: tuple[Input, ...] = ()
    shards: int | None = None
    threads: int | None = None
    partition: str = "dkm"
    balance: float = BALANCE
    balance_after: float = BALANCE_AFTER_S
    master: str | None = None
    follow: bool = False
    updates_format: str = "parquet"
    updates_to: str | None = None
    batch_rows: int = BATCH_ROWS
    snapshot_every: int = SNAPSHOT_EVERY


class Head(NamedTuple):
    """How much input there is."""

    batches: int = 0
    rows: int = 0
    files: int = 0


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
    """Run to the end, or with `follow` until interrupted.

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
    checkpoint = (options.checkpoint or options.out / "_checkpoint").absolute()
    files = find_files([given for given in options.inputs if not is_stream(given.path)], _own(options))
    refuse_messages(files)
    with settle(checkpoint, options) as settings:
        job = _Job(options, checkpoint, settings, watch)
        changed = job.changed(files)
        stopped = False
        if job.has_work(files):
            stopped = job.work()
        seconds = time.monotonic() - began
        return Result(job.totals, job.head(), job.before, changed, seconds, settings.n_shards, stopped)


def _own(options: Options) -> tuple[str, ...]:
    return tuple(str(folder) for folder in (options.out, options.checkpoint) if folder is not None)


class _Job:
    """One run under way."""

    def __init__(self, options: Options, checkpoint: Path, settings: Settings, watch: Watch) -> None:
        self._options = options
        self._checkpoint = checkpoint
        self._settings = settings
        self._watch = watch
        self._store = (checkpoint / "store").as_uri()
        self._record = Record(checkpoint / "totals")
        self.before = self.totals = self._record.last()
        self._intakes = Intakes(Store(self._store))
        self._log = checkpoint / "session" / "spark.log"
        self._balance = Balance(settings.n_shards, options.balance, options.balance_after)

    def changed(self, files: list[Any]) -> tuple[str, ...]:
        """Files that are not as they were when they were taken."""
        return self._intakes.changed(files)

    def has_work(self, files: list[Any]) -> bool:
        """Is there anything that was not processed?"""
        streams = any(is_stream(given.path) for given in self._options.inputs)
        return bool(
            self._options.follow or streams or self._intakes.new(files) or self._pieces_done() < self._intakes.end
        )

    def _pieces_done(self) -> int:
        """The number of pieces in batches that Spark has committed. Some batches have none.

        Raises
        ------
        SetupError
            The checkpoint is damaged.
        """
        committed = self._committed()
        if not committed:
            return 0
        place = self._checkpoint / "spark" / "offsets" / str(committed - 1)
        try:
            offsets = [json.loads(line) for line in place.read_text().splitlines()[2:] if line.startswith("{")]
            return min(int(offset["piece"]) for offset in offsets if "piece" in offset)
        except (OSError, ValueError) as error:
            raise SetupError(
                f"{place} is damaged ({error}). Put it back from a copy, or name another --out."
            ) from error

    def _committed(self) -> int:
        """The number of batches that Spark has committed."""
        names = Store((self._checkpoint / "spark").as_uri()).names("commits")
        return max((int(name) + 1 for name in names if name.isdigit()), default=0)

    def head(self) -> Head:
        """How much input there is."""
        self._intakes.refresh()
        return Head(self._intakes.end, self._intakes.n_rows, self._intakes.n_files)

    def work(self) -> bool:
        """Run the query to its end; was it stopped?"""
        options = self._options
        self._watch("start", self.totals, self.head())
        master = options.master or embedded_master(self._settings.n_shards)
        partitions = max(self._settings.n_shards, self._settings.n_partitions)
        warming = threading.Thread(target=compile_aside, name="nearcast-warm", daemon=True)
        if master.startswith("local"):
            warming.start()
        spark = start_session(master, partitions, self._checkpoint / "session")
        if warming.is_alive():
            self._watch("compile", self.totals, self.head())
            warming.join()
        if self._settings.n_shards > self._settings.n_partitions:
            if self._committed():
                repartition(spark, str(self._checkpoint / "spark"), partitions)
            record_partitions(self._checkpoint, partitions)
        before = str(spark.conf.get("spark.sql.shuffle.partitions"))
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
        try:
            self._watch("read", self.totals, self.head())
            query = self._start(spark)
            return self._wait(query)
        finally:
            with contextlib.suppress(Exception):
                spark.conf.set("spark.sql.shuffle.partitions", before)

    def _start(self, spark: SparkSession) -> StreamingQuery:
        options = self._options
        drop_uncommitted(options.out, self._committed())
        weights = self._settings.weights(spark, options, self._checkpoint / "weights.arrow")
        pieces, streams = self._pieces(spark)
        self._assigns = Assigns(spark, self._checkpoint / "assigns", pieces.ids)
        self._weights = weights
        if self._settings.n_shards > 1 and options.partition != "hash":
            self._propose(0)
        told, asked = (LongType() if kind == "bigint" else StringType() for kind in pieces.ids)
        spec = spec_of(
            options.space, options.window, weights, self._settings.n_shards, self._store, asked, told,
            analyzer=options.analyzer, placed=True, threads=options.threads or task_cpus(spark),
        )  # fmt: skip
        spec = replace(spec, snapshot_every=options.snapshot_every)
        packed = pieces.packed(spec)
        assigned = packed_controls(control_frame(self._assigns.stream()).rows, spec)
        for one in (assigned, *packed_streams(spark, streams, pieces.ids, spec)):
            packed = packed.unionByName(one)
        with own_workers(spark):
            said = packed_answers(packed, spec)
        write = writer(options.out.absolute().as_uri(), options.updates_format, (*COUNTS, "restored"))
        reports = said.mapInArrow(write, REPORT).writeStream.foreachBatch(self._note)
        reports = reports.option("checkpointLocation", str(self._checkpoint / "spark"))
        try:
            query = reports.start()
        except Exception as error:  # whatever Spark throws
            raise self._failed(error) from error
        try:
            pieces.taking.result()
        except Exception as error:
            query.stop()
            raise self._failed(error) from error
        self._watch("run", self.totals, self.head())
        return query

    def _failed(self, error: Exception) -> SetupError:
        told = cause(str(error))
        if str(self._checkpoint / "spark") in told:
            told += ". Put it back from a copy, or name another --out"
        return SetupError(f"Spark failed: {told} (see {self._log})")

    def _propose(self, n: int, work: list[float] | None = None) -> None:
        """Assign subscriptions, those that files hold, to shards: at the start, or by the work that shards had."""
        options = self._options
        there = find_files([given for given in options.inputs if not is_stream(given.path)], _own(options))
        if all(any(file.role in (side, EVENTS) for file in there) for side in SIDES):
            self._assigns.propose(
                n, there, "dkm" if options.partition == "hash" else options.partition, work,
                shards=self._settings.n_shards, space=options.space, window=options.window, weights=self._weights,
                analyzer=options.analyzer,
            )  # fmt: skip

    def _keep_balance(self, batch: int, reports: dict[int, dict[str, Any]]) -> None:
        """Let shards that have too much to do give to others."""
        if self._settings.n_shards > 1 and len(reports) == self._settings.n_shards:
            self._balance.add(batch, [reports[shard]["milliseconds"] / 1000 for shard in sorted(reports)])
            due = self._balance.due()
            if due is not None:
                self._propose(batch + 1, due.tolist())
                self._balance.wait(batch + 3)

    def _pieces(self, spark: SparkSession) -> tuple[Pieces, list[Input]]:
        """What files hold, and the streams."""
        options = self._options
        files = [given for given in options.inputs if not is_stream(given.path)]
        streams = [given for given in options.inputs if is_stream(given.path)]
        if self._intakes.ids is None and streams:
            there = find_files(files, _own(options))
            own = {side for file in there for side in SIDES if file.role in (side, EVENTS)}
            told = id_types(there)._asdict()
            seen = {side: kind for side, kind in first_types(spark, streams).items() if side not in own}
            self._intakes.fix_ids(IdTypes(**(told | seen)))
        pieces = stream_pieces(
            spark, files, store=self._store, follow=options.follow, without=_own(options), batch_rows=options.batch_rows
        )
        return pieces, streams

    def _wait(self, query: StreamingQuery) -> bool:
        """Wait until everything is processed; with `follow`, for ever."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import StreamingQueryException

        done = threading.Event()

        def all_available() -> None:
            with contextlib.suppress(Exception):  # a failed query tells in awaitTermination
                query.processAllAvailable()
            done.set()

        if not self._options.follow:
            threading.Thread(target=all_available, name="nearcast-wait", daemon=True).start()
        try:
            while not query.awaitTermination(_LOOK_S):  # type: ignore[arg-type]
                if done.is_set() and query.isActive:
                    return False
        except KeyboardInterrupt:
            return True
        except StreamingQueryException as error:
            raise self._failed(error) from error
        except (Py4JError, ConnectionError) as error:
            said = f"Spark's Java process has ended; run the same command to resume (see {self._log})"
            raise SetupError(said) from error
        finally:
            with contextlib.suppress(Py4JError, ConnectionError):
                query.stop()
        return False

    def _note(self, frame: DataFrame, batch: int) -> None:
        """Record what a micro-batch did; Spark calls it after every one."""
        reports = {row.shard: json.loads(row.report) for row in frame.collect()}
        before = self.totals
        self.totals = self._record.add(batch, list(reports.values()))
        if reports:
            with open(self._options.out / "metrics.jsonl", "a") as file:
                file.write(json.dumps(_metrics(before, self.totals, reports)) + "\n")
        self._keep_balance(batch, reports)
        if self._options.updates_to:
            self._pass_on(frame.sparkSession, batch)
        if batch % _SWEEP_EVERY == _SWEEP_EVERY - 1:
            sweep(self._store, (self._checkpoint / "spark").as_uri())
        self._watch("run", self.totals, self.head())

    def _pass_on(self, spark: SparkSession, batch: int) -> None:
        """Enter the updates of a batch in a stream; one that was entered is skipped there."""
        assert self._options.updates_to is not None, "there must be a stream"
        paths = sorted((self._options.out / "updates").glob(f"part-{batch:08d}-*"))
        if paths:
            register(spark)
            kind, given = options_of(self._options.updates_to)
            read = spark.read.parquet if self._options.updates_format == "parquet" else spark.read.json
            updates = read([str(path) for path in paths]).orderBy("seq").coalesce(1)  # type: ignore[arg-type]
            updates.write.format(kind).options(**given).mode("append").save()


def _metrics(before: Totals, after: Totals, reports: dict[int, dict[str, Any]]) -> dict[str, Any]:
    new = after.counts - before.counts
    names = ("rows", "messages", "events", "late", "rejects")
    seconds = [reports[shard]["milliseconds"] / 1000 for shard in sorted(reports)]
    return {
        "batch": after.next_batch - 1,
        **{name: new[name] for name in names},
        "updates": new["added"] + new["removed"],
        "restores": new["restored"],
        "shard_seconds": seconds,
    }


def drop_uncommitted(out: Path, n_batches: int) -> None:
    """Remove what was written of batches that were not committed: they come again, maybe with other shards."""
    for folder in (out / "updates", out / "rejects"):
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if path.name.startswith("part-") and int(path.name[5:13]) >= n_batches:
                path.unlink()


def cause(text: str) -> str:
    """The line of Spark's many that says what went wrong: an error of ours, of Python's, or the root of Java's."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    roots = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    named = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception", "InvalidInput"))]
    for found in (named, roots):
        telling = [line for line in found if not line.startswith(_CARRIERS)]
        own = [line for line in telling if line.startswith("nearcast.")]
        if telling:
            return (own or telling)[-1][:300]
    first = lines[0] if lines else "no reason given"
    return first.rpartition("terminated with exception: ")[2].partition(" SQLSTATE:")[0][:300]
