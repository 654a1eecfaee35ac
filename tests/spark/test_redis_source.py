"""Entries of a real Redis stream become rows, and rows become entries, each once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from nearcast.errors import InvalidInput, SetupError
from nearcast.spark import sources
from nearcast.spark.sources.redis_sink import mark_of
from nearcast.spark.sources.redis_source import RedisReader, RedisStreamReader
from nearcast.spark.sources.redis_streams import Server, before
from nearcast.spark.sources.values import Place
from spark.servers import redis_server

redis = pytest.importorskip("redis", reason="the client is not installed: pip install 'nearcast[redis]'")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as address:
        yield address


@pytest.fixture(scope="module")
def client(server: str) -> Iterator[Any]:
    with redis.Redis.from_url(server) as made:
        yield made


def fill(client: Any, name: str, n: int, first: int = 0) -> None:
    with client.pipeline() as pipeline:
        for number in range(first, first + n):
            pipeline.xadd(name, {"json": json.dumps({"n": number})})
        pipeline.execute()


def options(server: str, stream: str, **more: str) -> dict[str, str]:
    return {"url": server, "stream": stream, **{name.lower(): value for name, value in more.items()}}


def numbers(reader: Any, parts: list[Any]) -> list[int]:
    return [json.loads(v)["n"] for part in parts for b in reader.read(part) for v in b.column("value").to_pylist()]


def test_a_stream_is_read_in_bounded_steps_and_parts(server: str, client: Any) -> None:
    fill(client, "steps", 25)
    reader = RedisStreamReader(options(server, "steps", maxOffsetsPerTrigger="10", maxRecordsPerPartition="4"))
    at, seen, sizes = reader.initialOffset(), [], []
    assert reader.getDefaultReadLimit() == ReadMaxRows(10)
    while (end := reader.latestOffset(at, ReadMaxRows(10))) != at:
        parts = reader.partitions(at, end)
        sizes.append([part.span.n for part in parts])
        seen += numbers(reader, parts)
        at = end
    assert seen == list(range(25))
    assert sizes == [[4, 4, 2], [4, 4, 2], [4, 1]]
    assert reader.partitions(at, at) == []
    fill(client, "steps", 5, 25)
    end = reader.latestOffset(at, ReadAllAvailable())
    assert numbers(reader, reader.partitions(at, end)) == [25, 26, 27, 28, 29]
    assert end == reader.reportLatestOffset()


def test_streams_share_a_limit_and_lend_what_they_do_not_need(server: str, client: Any) -> None:
    fill(client, "many", 30)
    fill(client, "few", 2)
    reader = RedisStreamReader(options(server, "few, many"))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(12))
    assert sorted(part.span.n for part in reader.partitions(start, end)) == [2, 10]


def test_where_to_start(server: str, client: Any) -> None:
    fill(client, "start", 3)
    ids = [entry.decode() for entry, _ in client.xrange("start")]
    early = RedisReader(options(server, "start"))
    assert numbers(early, early.partitions()) == [0, 1, 2]
    late = RedisReader(options(server, "start", startingOffsets=ids[1]))
    assert numbers(late, late.partitions()) == [2]
    assert RedisStreamReader(options(server, "start", startingOffsets="latest")).initialOffset() == {"start": ids[2]}
    assert RedisStreamReader(options(server, "nobody")).initialOffset() == {"nobody": "0-0"}
    assert (before("5-3"), before("5-0"), before("0-0")) == ("5-2", f"4-{2**64 - 1}", "0-0")


def test_what_comes_after_the_start_waits_for_the_next_run(server: str, client: Any) -> None:
    fill(client, "now", 3)
    reader = RedisStreamReader(options(server, "now"))
    at = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    fill(client, "now", 3, 3)
    end = reader.latestOffset(at, ReadAllAvailable())
    assert numbers(reader, reader.partitions(at, end)) == [0, 1, 2]
    assert reader.latestOffset(end, ReadAllAvailable()) == end


def test_entries_that_were_deleted_unread_are_an_error(server: str, client: Any) -> None:
    fill(client, "gone", 10)
    reader = RedisStreamReader(options(server, "gone"))
    loose = RedisStreamReader(options(server, "gone", failOnDataLoss="false"))
    start = reader.initialOffset()
    at = reader.latestOffset(start, ReadMaxRows(4))
    planned = reader.partitions(start, at)
    client.xtrim("gone", minid=client.xrange("gone")[4][0], approximate=False)
    assert reader.latestOffset(at, ReadAllAvailable()) != at  # what was read may go
    with pytest.raises(SetupError, match=r'4 of the 4 entries .* are gone\. .*option\("failOnDataLoss", "false"\)'):
        numbers(reader, planned)
    assert numbers(loose, planned) == []
    client.xdel("gone", client.xrange("gone")[3][0])  # somebody took one out on purpose
    assert reader.latestOffset(at, ReadAllAvailable()) != at
    client.xtrim("gone", maxlen=2, approximate=False)
    with pytest.raises(SetupError, match=r"stream gone at redis://127\.0\.0\.1:\d+: entries up to .* were deleted"):
        reader.latestOffset(at, ReadAllAvailable())
    assert numbers(loose, loose.partitions(at, loose.latestOffset(at, ReadAllAvailable()))) == [8, 9]
    client.delete("gone")
    with pytest.raises(SetupError, match="it was deleted and made again"):
        reader.latestOffset(at, ReadAllAvailable())
    assert loose.latestOffset(at, ReadAllAvailable()) == at


def test_what_cannot_be_honoured_is_named(server: str) -> None:
    with pytest.raises(InvalidInput, match=r'url is required: \.option\("url", "redis://HOST:6379"\)'):
        RedisReader({"stream": "x"}).partitions()
    with pytest.raises(InvalidInput, match="stream is required"):
        RedisReader({"url": server})
    with pytest.raises(InvalidInput, match="maxRecordsPerPartition must be a whole number >= 1, got '0'"):
        RedisReader(options(server, "x", maxRecordsPerPartition="0"))
    with pytest.raises(InvalidInput, match="failOnDataLoss must be true or false, got 'maybe'"):
        RedisReader(options(server, "x", failOnDataLoss="maybe"))
    with pytest.raises(InvalidInput, match="offset must be the id of an entry"):
        RedisReader(options(server, "x", startingOffsets="yesterday"))
    with pytest.raises(SetupError, match=r"Redis at redis://127\.0\.0\.1:1: "):
        RedisReader(options("redis://:secret@127.0.0.1:1", "x")).partitions()
    with pytest.raises(InvalidInput, match="stream must name each once, got 'a,a'"):
        RedisReader(options(server, "a,a"))


def test_security_settings_reach_the_client(tmp_path: Path) -> None:
    with redis_server(tmp_path, "--requirepass", "p&ss/w%rd") as address:
        given = options(address, "x", **{"redis.password": "p&ss/w%rd", "redis.socket_timeout": "5"})
        with Server(given) as server:
            assert server.end("x") == "0-0"
        with pytest.raises(SetupError, match="authenticate"):
            Server(options(address, "x"))
        with pytest.raises(SetupError, match="nonsense"):
            Server({**given, "redis.nonsense": "1"})


def test_addresses_become_options() -> None:
    assert sources.options_of("redis://me:pw@host:7/posts") == (
        sources.REDIS, {"url": "redis://me:pw@host:7", "stream": "posts"},
    )  # fmt: skip
    assert sources.options_of("kafka://host/posts")[1]["kafka.bootstrap.servers"] == "host:9092"
    assert sources.is_stream("rediss://host/posts")
    assert not sources.is_stream("s3://bucket/posts")
    for address, form in (("redis://host", "redis://HOST:PORT/NAME"), ("kafka://host/", "kafka://HOST:PORT/TOPIC")):
        with pytest.raises(InvalidInput, match=f"stream must be {form}"):
            sources.options_of(address)


def test_a_batch_is_entered_once_whoever_tries_again(server: str, client: Any) -> None:
    mark = mark_of("once", Place("run", 0, 3))
    with Server({"url": server}) as one, Server({"url": server}) as other:
        assert one.enter("once", "json", [b"a", b"b"], mark, 0, None)
        assert not other.enter("once", "json", [b"a", b"b"], mark, 0, None)
        assert other.enter("once", "json", [b"c"], mark, 1, None)
        assert not one.enter("once", "json", [b"a"], mark, 0, None)
    assert [fields[b"json"] for _, fields in client.xrange("once")] == [b"a", b"b", b"c"]


def test_two_attempts_at_the_same_time_enter_once(server: str, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = mark_of("race", Place("run", 0, 0))
    multi = redis.client.Pipeline.multi
    with Server({"url": server}) as one, Server({"url": server}) as other:

        def overtaken(self: Any) -> None:
            monkeypatch.setattr(redis.client.Pipeline, "multi", multi)
            assert other.enter("race", "json", [b"a"], mark, 0, None)
            multi(self)

        monkeypatch.setattr(redis.client.Pipeline, "multi", overtaken)
        assert not one.enter("race", "json", [b"a"], mark, 0, None)
    assert client.xlen("race") == 1


def test_from_stream_to_stream_through_spark(spark: Any, server: str, client: Any, tmp_path: Path) -> None:
    sources.register(spark)
    fill(client, "from", 40)
    given = options(server, "from", maxRecordsPerPartition="15")
    frame = spark.read.format("nearcast-redis").options(**given).load()
    assert frame.rdd.getNumPartitions() == 3
    rows = frame.select(
        F.get_json_object(F.col("value").cast("string"), "$.n").cast("int").alias("n"), "id", "timestamp"
    )
    found = rows.orderBy("n").collect()
    assert [row.n for row in found] == list(range(40))
    assert abs(found[0].timestamp.timestamp() - time.time()) < 600
    stream = spark.readStream.format("nearcast-redis").options(**given, maxOffsetsPerTrigger="25").load()
    doubled = stream.select(F.get_json_object(F.col("value").cast("string"), "$.n").cast("int").alias("n"))

    def run() -> int:
        sink = doubled.writeStream.format("nearcast-redis").options(url=server, stream="to")
        query = sink.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
        query.awaitTermination()
        return len([p for p in query.recentProgress if p["numInputRows"]])

    assert run() == 2
    fill(client, "from", 5, 40)
    commits = sorted((tmp_path / "c" / "commits").glob("[0-9]*"))
    commits[-1].unlink()  # as if the driver had been killed before it noted its last batch
    (tmp_path / "c" / "commits" / f".{commits[-1].name}.crc").unlink(missing_ok=True)
    run()
    told = [json.loads(fields[b"json"])["n"] for _, fields in client.xrange("to")]
    assert sorted(told) == list(range(45))


def test_a_batch_frame_becomes_entries(spark: Any, server: str, client: Any) -> None:
    sources.register(spark)
    frame = spark.range(7).select(F.col("id").cast("string").alias("value"))
    frame.write.format("nearcast-redis").options(url=server, stream="batch").mode("append").save()
    assert sorted(int(fields[b"json"]) for _, fields in client.xrange("batch")) == list(range(7))
    assert all(0 < client.ttl(key) <= 86_400 for key in client.keys("{batch}:nearcast:*"))
