"""Answers over streams are those of one broker, however they are cut and wherever they are interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import nearcast as nc
import nearcast.spark as ns
from nearcast.partition.partition import shard_key
from nearcast.spark.shards.repartition import note_empty
from nearcast.spark.shards.store import Store
from spark.scenes import (
    CONTROLS,
    MESSAGES,
    PLACED,
    SPACE,
    WINDOW,
    One,
    Row,
    assigns_of,
    changes_of,
    controls_of,
    frame,
    messages_of,
    said_by,
)


class Stream:
    """A query over two folders to which parts of a stream are written, one a batch."""

    def __init__(self, spark: Any, folder: Path, shards: int, static: list[Row] | None = None) -> None:
        self.spark, self.folder, self.shards, self.static = spark, folder, shards, static
        self.n = 0
        for name in ("messages", "controls"):
            (folder / name).mkdir(exist_ok=True)

    def write(self, messages: list[Row], controls: list[Row]) -> None:
        self.n += 1
        for name, rows, ddl in (("messages", messages, MESSAGES), ("controls", controls, PLACED)):
            if rows:
                frame(self.spark, rows, ddl).coalesce(1).write.mode("append").parquet(str(self.folder / name))

    def run(self) -> list[Any]:
        """Process what is there, and return all answers so far."""
        spark = self.spark
        told = spark.readStream.schema(MESSAGES).parquet(str(self.folder / "messages"))
        if self.static is None:
            asked = spark.readStream.schema(PLACED).parquet(str(self.folder / "controls"))
        else:
            asked = frame(spark, self.static, CONTROLS)
        store = (self.folder / "store").as_uri()
        answers = ns.answers(told, asked, space=SPACE, window=WINDOW, shards=self.shards, store=store)
        writer = answers.writeStream.option("checkpointLocation", str(self.folder / "checkpoint")).format("parquet")
        query = writer.trigger(availableNow=True).start(str(self.folder / "answers"))
        query.awaitTermination()
        return list(spark.read.parquet(str(self.folder / "answers")).collect())


def parts(rows: list[Row], n: int) -> list[list[Row]]:
    """The same rows cut into n parts between different ts."""
    times = sorted({row.get("ts") or 0 for row in rows if (row.get("ts") or 0) < 2**60})
    cuts = [times[len(times) * i // n] for i in range(1, n)]
    cut: list[list[Row]] = [[] for _ in range(n)]
    for row in rows:
        cut[sum((row.get("ts") or 0) >= at for at in cuts) if (row.get("ts") or 0) < 2**60 else 0].append(row)
    return cut


@pytest.fixture
def partitions(spark: Any) -> Any:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", 4)
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.mark.usefixtures("partitions")
def test_restarts_assigns_and_other_numbers_of_shards_do_not_show(spark: Any, tmp_path: Path) -> None:
    messages = messages_of(5, 400)
    messages += changes_of(5, messages)
    controls = controls_of(5, 60, 60_000) + assigns_of(5, 60, 60_000)
    stream, one = Stream(spark, tmp_path, 2), One()
    said = parts(messages, 4)
    bounds = [min(row["ts"] for row in part if row["ts"] < 2**60) for part in said[1:]]
    asked: list[list[Row]] = [[] for _ in said]
    for row in controls:
        asked[sum(row["ts"] >= bound for bound in bounds)].append(row)
    for i, (mine, theirs) in enumerate(zip(said, asked, strict=True)):
        stream.shards = (2, 3, 6, 2)[i]
        if i == 2:
            with pytest.raises(nc.InvalidInput, match=r"must be <= spark.sql.shuffle.partitions \(4\).*ns.repartition"):
                stream.run()
            for _ in range(2):  # once more does no harm
                ns.repartition(spark, str(tmp_path / "checkpoint"), 6, str(tmp_path / "answers"))
            spark.conf.set("spark.sql.shuffle.partitions", 6)
        stream.write(mine, theirs)
        expected = one.take(mine, theirs)
        assert said_by(stream.run()) == expected


@pytest.mark.usefixtures("partitions")
def test_every_shard_has_a_partition_of_its_own(spark: Any) -> None:
    keys = F.array(*[F.lit(shard_key(shard, 4)) for shard in range(4)])
    rows = spark.range(1).select(F.posexplode(keys).alias("shard", "key")).repartition("key")
    assert sorted(tuple(row) for row in rows.select("shard", F.spark_partition_id()).collect()) == [
        (shard, shard) for shard in range(4)
    ]


@pytest.mark.usefixtures("partitions")
def test_static_subscriptions_are_loaded_once(spark: Any, tmp_path: Path) -> None:
    static = [row for row in controls_of(6, 40, 30_000) if row["event"] != "advance"]
    stream, one = Stream(spark, tmp_path, 2, static), One()
    one.take([], static)
    for part in parts(messages_of(6, 200), 2):
        stream.write(part, [])
        assert said_by(stream.run()) == one.take(part, [])
        stream.static = static[:3]


def test_the_log_of_a_file_sink_knows_of_a_batch_that_wrote_nothing(tmp_path: Path) -> None:
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    for number in range(9):
        (log / str(number)).write_text(f'v1\n{{"path":"{number}"}}')
    note_empty(Store(tmp_path.as_uri()), 9)
    assert (log / "9.compact").read_text().splitlines() == ["v1", *(f'{{"path":"{n}"}}' for n in range(9))]
    note_empty(Store(tmp_path.as_uri()), 10)
    assert (log / "10").read_text() == "v1"


def test_what_cannot_be_repartitioned_is_named(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(nc.InvalidInput, match="must be the checkpoint of a streaming query that has run"):
        ns.repartition(spark, str(tmp_path), 3)
    with pytest.raises(nc.SetupError, match="cannot give a checkpoint other partitions"):
        ns.repartition(object(), str(tmp_path), 3)
