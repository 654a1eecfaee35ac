"""Two servers in front of one run on Spark: the same updates under the same cursors, whoever is asked."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import nearcast as nc
from nearcast.errors import InvalidInput
from nearcast.model.codec import message_from_json, subscription_from_json
from nearcast.server.service import Service
from server.serving import NEAREST, WITHIN, Process, Running, Talk, running, settings, wait

WORDS = ("--space", "0,0,10,10", "--metric", "euclidean", "--window-count", "30")
OPTIONS: dict[str, Any] = {"window_count": 30, "clock": "event"}
QUERIES = {
    "w": WITHIN,
    "n": NEAREST,
    "t": {"kind": "topk", "lon": 5, "lat": 5, "keywords": "tram bus", "k": 2, "alpha": 0.5},
    "s": {"kind": "similar", "lon": 5, "lat": 5, "keywords": "tram bus", "delta": 0.5, "tau": 0.6},
}
LONG_S = 300.0


def post(n: int) -> dict[str, Any]:
    text = ("tram", "bus tram", "boat")[n % 3]
    return {"id": f"m{n}", "lon": n * 7 % 10, "lat": n * 3 % 10, "text": text, "ts": 1_000 + n}


@contextmanager
def spark(folder: Path) -> Iterator[None]:
    """`nearcast run --follow` over the folder of a pipeline."""
    inputs = ["--events", str(folder / "inbox"), "--out", str(folder / "out"), "--shards", "2"]
    words = [sys.executable, "-m", "nearcast.cli.main", "run", "--follow", *inputs, *WORDS]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    try:
        yield
        assert process.poll() is None, process.stderr and process.stderr.read()
    finally:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def told(address: str, id: str, after: str) -> list[list[Any]]:
    rows: list[list[Any]] = httpx.get(
        f"{address}/v1/subscriptions/{id}/updates", params={"after": after, "limit": 100_000}, timeout=60
    ).json()["u"]
    return rows


def judged(n_messages: int) -> dict[str, list[list[Any]]]:
    """What one broker tells."""
    broker = nc.Broker(nc.Space((0, 0, 10, 10), "euclidean"), nc.Window(count=30))
    rows: dict[str, list[list[Any]]] = {id: [] for id in QUERIES}
    for id, query in QUERIES.items():
        broker.subscribe(id, subscription_from_json({"id": id, **query}).query)
    for n in range(n_messages):
        for each in broker.publish(message_from_json(post(n))):
            rows[str(each.subscription)].append([each.subscription, each.sign, each.message, each.score, each.ts])
    return rows


@pytest.mark.spark
@pytest.mark.slow
def test_two_servers_in_front_of_one_run(tmp_path: Path) -> None:
    folder = tmp_path / "city"
    words = (*WORDS, "--clock", "event", "--pipeline", str(folder))
    one, other = Process(tmp_path / "one", *words), Process(tmp_path / "other", *words)
    with spark(folder), httpx.Client(base_url=one.address, timeout=60) as first:
        start = first.get("/readyz").json()["cursor"]
        for id, query in QUERIES.items():
            assert first.put(f"/v1/subscriptions/{id}", json=query).status_code == 201
        wait(lambda: first.get("/readyz").json()["cursor"] != start, LONG_S)  # the run has taken them
        seen = httpx.get(f"{other.address}/v1/subscriptions").json()["subscriptions"]
        assert sorted(each["id"] for each in seen) == sorted(QUERIES)
        talk = Talk(one.address)
        talk.say({"attach": list(QUERIES), "after": start})
        talk.hear("attached")
        expected = judged(60)
        heard: list[Any] = []
        for half in (range(30), range(30, 60)):
            lines = "\n".join(json.dumps(post(n)) for n in half)
            answer = httpx.post(
                f"{other.address}/v1/messages", content=lines, headers={"content-type": "application/x-ndjson"}
            )
            assert (answer.status_code, answer.json()["accepted"]) == (202, 30)
            n_rows = sum(1 for rows in judged(half.stop).values() for _ in rows)
            while len(heard) < n_rows:
                frame = talk.hear("u", LONG_S)
                heard += frame["u"]
            assert frame["messages"]
            if half.start == 0:
                middle = frame["c"]
                other.kill()
                other = Process(tmp_path / "other", *words)
        for id, rows in expected.items():
            assert [row for row in heard if row[0] == id] == rows
            assert told(one.address, id, start) == rows
            assert told(other.address, id, start) == rows
            ahead = told(other.address, id, middle)  # a cursor of one server resumes at the other
            assert ahead == rows[len(rows) - len(ahead) :]
        compare_results(one.address, other.address)
        again = first.post("/v1/messages", json=post(59))
        assert again.status_code == 202  # the run says no, later
        text = wait(lambda: rejected(first), LONG_S)
        assert "nearcast_rejects_total 1.0" in text
        talk.close()
    for server in (one, other):
        assert server.stop() == 0


def rejected(http: httpx.Client) -> str | None:
    text = http.get("/metrics").text
    return None if "nearcast_rejects_total 0.0" in text else text


def compare_results(*addresses: str) -> None:
    broker = nc.Broker(nc.Space((0, 0, 10, 10), "euclidean"), nc.Window(count=30))
    for id, query in QUERIES.items():
        broker.subscribe(id, subscription_from_json({"id": id, **query}).query)
    for n in range(60):
        broker.publish(message_from_json(post(n)))
    for address in addresses:
        for id in QUERIES:
            found = httpx.get(f"{address}/v1/subscriptions/{id}/results", timeout=60).json()["results"]
            assert sorted(found) == sorted([message, score] for message, score in broker.results(id)), (address, id)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[tuple[Running, Path]]:
    """A server without its run, which is played here: files of batches, and the marks that they count."""
    folder = tmp_path / "city"
    with running(tmp_path / "data", pipeline=str(folder), **OPTIONS) as server:
        yield server, folder / "out"


def commit(out: Path, batch: int, *rows: tuple[str, str, str, float | None, int], rejects: int = 0) -> None:
    for name in ("updates", "rejects", "_checkpoint/spark/commits"):
        (out / name).mkdir(parents=True, exist_ok=True)
    lines = [
        {"subscription": id, "sign": sign, "message": message, "score": score, "ts": ts, "batch": batch, "seq": seq}
        for seq, (id, sign, message, score, ts) in enumerate(rows)
    ]
    if lines:
        (out / "updates" / f"part-{batch:08d}-000.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if rejects:
        line = json.dumps({"source": "x", "row": 1, "text": "", "field": "id", "reason": "id must not be taken"})
        (out / "rejects" / f"part-{batch:08d}-000.jsonl").write_text(f"{line}\n" * rejects)
    (out / "_checkpoint" / "spark" / "commits" / str(batch)).write_text("v1\n{}")


def test_batches_are_events_and_only_those_that_count(alone: tuple[Running, Path]) -> None:
    server, out = alone
    start = server.put("w", WITHIN)
    server.put("n", NEAREST)
    server.publish("m1", 10)
    talk = server.socket()
    talk.say({"attach": ["w", "n"], "after": "results"})
    for _ in range(2):
        talk.hear("attached")
        assert talk.hear("snapshot")["results"] == []
    commit(out, 0)
    (out / "updates" / "part-00000001-000.jsonl").write_text("half a li")
    wait(lambda: server.service.backend.state.event == 1)
    (out / "updates" / "part-00000001-000.jsonl").unlink()
    commit(out, 1, ("w", "+", "m1", None, 10), ("n", "+", "m1", 0.0, 10), rejects=2)
    frame = talk.hear("u")
    assert [row[:3] for row in frame["u"]] == [["w", "+", "m1"], ["n", "+", "m1"]]
    assert frame["messages"]["m1"]["text"] == "tram"
    assert frame["c"].endswith(".2")
    assert server.http.get("/v1/subscriptions/n/results").json()["results"] == [["m1", 0.0]]
    server.publish("m2", 11)
    commit(out, 2, ("n", "-", "m1", 0.0, 11), ("n", "+", "m2", 0.0, 11), ("w", "+", "m2", None, 11))
    assert len(talk.hear("u")["u"]) == 3
    assert server.http.get("/v1/subscriptions/n/results").json()["results"] == [["m2", 0.0]]
    assert [m for m, _ in server.http.get("/v1/subscriptions/w/results").json()["results"]] == ["m2", "m1"]
    page = server.http.get("/v1/subscriptions/w/updates", params={"after": start, "limit": 1}).json()
    assert (len(page["u"]), page["more"]) == (1, True)
    assert "nearcast_rejects_total 2.0" in server.http.get("/metrics").text
    server.http.delete("/v1/subscriptions/w")
    assert talk.hear("end") == {"end": "w", "reason": "deleted"}
    talk.close()


def test_what_a_run_is_told(alone: tuple[Running, Path]) -> None:
    server, out = alone
    server.put("w", WITHIN)
    server.put("w", WITHIN)  # nothing new
    server.put("w", {**WITHIN, "keywords": "boat"})
    server.http.patch("/v1/subscriptions/w", json={"region": [1, 1, 2, 2]})
    server.publish("m1", 10)
    server.http.put("/v1/messages/m1", json={"lon": 1, "lat": 1, "text": "bus", "ts": 11})
    server.http.delete("/v1/messages/m1")
    body = {"id": "once", "lon": 1, "lat": 1, "text": "a", "ts": 12}
    first, second = (server.http.post("/v1/messages", json=body, headers={"Idempotency-Key": "k"}) for _ in range(2))
    assert first.json() == second.json()
    inbox = out.parent / "inbox"
    said = {
        name: [json.loads(line) for path in sorted((inbox / name).iterdir()) for line in path.read_text().splitlines()]
        for name in ("subscriptions", "messages")
    }
    events = [line["event"] for line in said["subscriptions"]]
    assert events == ["subscribe", "unsubscribe", "subscribe", "move"]
    assert [line.get("event", "publish") for line in said["messages"]] == ["publish", "update", "retract", "publish"]
    assert server.http.get("/v1/subscriptions/w").json()["region"] == [1, 1, 2, 2]
    assert not list(inbox.rglob("*.tmp"))


def test_what_updates_do_not_tell_is_a_problem(alone: tuple[Running, Path]) -> None:
    server, _ = alone
    server.put("w", WITHIN)
    for method, path, given in (
        ("GET", "/v1/subscriptions/w/explain/m", None),
        ("POST", "/v1/preview", WITHIN),
        ("POST", "/v1/match", {"id": "m", "lon": 1, "lat": 1, "text": "tram"}),
        ("POST", "/v1/admin/snapshot", None),
    ):
        answer = server.http.request(method, path, json=given)
        assert (answer.status_code, answer.json()["code"]) == (501, "in-pipeline"), answer.text
        assert "in front of a pipeline" in answer.json()["detail"]


def test_another_run_in_the_folder_is_noticed(alone: tuple[Running, Path]) -> None:
    server, out = alone
    cursor = server.put("w", WITHIN)
    commit(out, 0)
    wait(lambda: server.service.backend.state.event == 1)
    assert server.http.get("/v1/subscriptions/w/updates", params={"after": cursor}).status_code == 200
    (out / "epoch").write_text("another")
    wait(lambda: not server.service.backend.is_ready)
    answer = server.http.post("/v1/messages", json=post(1))
    assert (answer.status_code, "must stay the folder of one run" in answer.json()["detail"]) == (503, True)


def test_the_space_and_window_are_those_of_the_run(tmp_path: Path) -> None:
    asked = {"space": str(nc.Space((0, 0, 10, 10), "euclidean")), "window": str(nc.Window(count=31))}
    (tmp_path / "city" / "out" / "_checkpoint").mkdir(parents=True)
    (tmp_path / "city" / "out" / "_checkpoint" / "run.json").write_text(json.dumps({"asked": asked}))

    async def begin() -> None:
        await Service(settings(tmp_path / "data", pipeline=str(tmp_path / "city"), **OPTIONS)).start()

    with pytest.raises(InvalidInput, match="--window must be that of the run"):
        asyncio.run(begin())


def test_messages_of_the_wall_have_their_time(tmp_path: Path) -> None:
    with running(tmp_path / "data", pipeline=str(tmp_path / "city"), window_count=30, clock="wall") as server:
        now = int(time.time() * 1000)
        server.http.post("/v1/messages", json={"id": "m", "lon": 1, "lat": 1, "text": "a"})
        server.put("w", {**WITHIN, "expires": now + 3_600_000})
        paths = sorted((tmp_path / "city" / "inbox").rglob("*.jsonl"))
        assert all(json.loads(path.read_text())["ts"] >= now for path in paths)
        commit(tmp_path / "city" / "out", 0, ("w", "+", "m", None, now + 3_600_000))
        wait(lambda: server.http.get("/v1/subscriptions/w").status_code == 404)  # its time is over
