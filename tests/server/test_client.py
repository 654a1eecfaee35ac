"""The Python client against a real server, and over a break of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import nearcast as nc
from nearcast.client import AsyncClient, Change, Client, Ended, ServerError, Snapshot
from server.serving import Process, Running, running, wait

OPTIONS = ("--space", "0,0,10,10", "--metric", "euclidean", "--window-count", "30", "--clock", "event")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("client")) as server:
        yield server


def test_publish_subscribe_and_iterate(server: Running) -> None:
    with Client(server.address, timeout=300) as client:  # the first request may compile kernels
        cursor = client.subscribe("a/b", nc.Nearest(1, 1, "tram", k=1))
        answer = client.publish(
            [nc.Message("m1", 3, 1, "tram", ts=1), {"id": "m2", "lon": 2, "lat": 1, "text": "tram"}]
        )
        assert answer["accepted"] == 2
        heard = client.updates("a/b", after=cursor)
        rows = [next(heard) for _ in range(3)]
        assert all(isinstance(each, Change) for each in rows)
        assert [(each.sign, each.message) for each in rows if isinstance(each, Change)] == [
            ("+", "m1"),
            ("-", "m1"),
            ("+", "m2"),
        ]
        client.move("a/b", lon=9, lat=9)
        assert client.results("a/b")["results"][0][0] == "m1"
        assert client.explain("a/b", "m1")["in_result"]
        client.unsubscribe("a/b")
        assert [each for each in heard if isinstance(each, Ended)] == [Ended("a/b", "deleted")]
        with pytest.raises(ServerError, match="404 unknown-id"):
            client.results("a/b")
        with pytest.raises(ServerError, match="unknown-id"):
            next(client.updates("nobody"))
        client.subscribe("c", nc.Within((0, 0, 9, 9), "tram"))
        first = next(client.updates("c", after="old.7"))
        assert isinstance(first, Snapshot)
        assert {message for message, _ in first.results} == {"m1", "m2"}


async def test_the_same_with_await(server: Running) -> None:
    async with AsyncClient(server.address) as client:
        await client.subscribe("x", {"kind": "within", "region": [0, 0, 9, 9], "keywords": "boat"})
        heard = client.updates("x", after="results")
        first = await anext(heard)
        assert first == Snapshot("x", [], first.cursor, {})  # type: ignore[union-attr]
        await client.publish({"id": "b1", "lon": 1, "lat": 1, "text": "boat"}, key="once")
        await client.publish({"id": "b1", "lon": 1, "lat": 1, "text": "boat"}, key="once")
        second = await anext(heard)
        assert isinstance(second, Change)
        assert (second.message, second.body and second.body["text"]) == ("b1", "boat")
        await client.unsubscribe("x")
        assert [each async for each in heard] == [Ended("x", "deleted")]


@pytest.mark.slow
def test_a_break_is_not_noticed(tmp_path: Path) -> None:
    server = Process(tmp_path, *OPTIONS)
    port = server.address.rsplit(":", 1)[1]
    with Client(server.address) as client:
        client.subscribe("ann", nc.Within((0, 0, 9, 9), "tram"))
        heard: list[Change | Snapshot | Ended] = []

        def listen() -> None:
            for each in client.updates("ann", after="results"):
                heard.append(each)  # noqa: PERF402  # others look at it meanwhile

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        wait(lambda: heard)
        client.publish({"id": "m1", "lon": 1, "lat": 1, "text": "tram"})
        client.publish({"id": "m2", "lon": 1, "lat": 1, "text": "tram"})
        server.kill()
        server = Process(tmp_path, *OPTIONS, "--port", port)
        client.publish({"id": "m3", "lon": 1, "lat": 1, "text": "tram"})
        client.unsubscribe("ann")
        thread.join(120)
        assert not thread.is_alive()
        assert isinstance(heard[0], Snapshot)
        assert [each.message for each in heard if isinstance(each, Change)] == ["m1", "m2", "m3"]
        assert heard[-1] == Ended("ann", "deleted")
    server.stop()


def test_event_loops_are_not_held(server: Running) -> None:
    async def both() -> None:
        async with AsyncClient(server.address) as client:
            await asyncio.gather(*(client.subscribe(f"g{n}", nc.Nearest(1, 1, "x")) for n in range(5)))

    asyncio.run(both())
