"""What the server tells is what a plain broker tells, event by event, however requests were batched and restarted."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

import nearcast as nc
from nearcast.model.codec import message_from_json
from nearcast.server.durable.log import replay
from nearcast.server.durable.operations import MESSAGES, Part, decode
from server.judge import control
from server.serving import WITHIN, running
from server.test_durable import SETTINGS, Life, lines

IDS = ("ann", "bob", "cy")
WORDS = ("tram", "bus", "boat")


def query(rng: random.Random) -> dict[str, Any]:
    place = {"lon": rng.randint(0, 4), "lat": rng.randint(0, 4), "keywords": rng.sample(WORDS, rng.randint(1, 2))}
    return rng.choice(
        [
            {
                "kind": "within",
                "region": [rng.randint(0, 2), 0, rng.randint(2, 5), 5],
                "keywords": "tram OR (bus AND NOT boat)",
            },
            {"kind": "similar", **place, "delta": 0.5, "tau": 0.5},
            {"kind": "topk", **place, "k": rng.randint(1, 3), "alpha": 0.5},
            {"kind": "nearest", **place, "k": rng.randint(1, 3), "match": rng.choice(["all", "any"])},
        ]
    )


def line(rng: random.Random, clock: int) -> dict[str, Any]:
    id, sort = rng.choice(IDS), rng.random()
    if sort < 0.2:
        return {"event": "unsubscribe", "id": id}
    if sort < 0.4:
        to = rng.choice([{"lon": rng.randint(0, 4), "lat": 1}, {"region": [0, 0, rng.randint(1, 4), 4]}])
        return {"event": "move", "id": id, **to}
    if sort < 0.5:
        return {"event": "advance", "ts": clock}
    expires = {"expires": clock + rng.randint(1, 30)} if rng.random() < 0.3 else {}
    return {"event": "subscribe", "id": id, **query(rng), **expires, "replace": rng.random() < 0.7}


def post(rng: random.Random, number: int, clock: int) -> dict[str, Any]:
    said = {
        "id": f"m{number % 40}",
        "lon": rng.randint(0, 4),
        "lat": rng.randint(0, 4),
        "ts": clock - rng.randint(0, 3),
    }
    expires = {"expires": clock + rng.randint(0, 9)} if rng.random() < 0.2 else {}
    return {**said, **expires, "text": " ".join(rng.choices(WORDS, k=rng.randint(1, 3)))}


def judged(data: Path) -> dict[str, list[tuple[int, Any]]]:
    """The log through a plain broker, one row at a time."""
    broker = nc.Broker(SETTINGS.space(), SETTINGS.window())
    told: dict[str, list[tuple[int, Any]]] = {id: [] for id in IDS}
    for event, payload in replay(data / "log", 0):
        run = decode(payload)
        for row in run.content.to_pylist() if run.is_messages else run.content:
            try:
                updates = broker.publish(message_from_json(row)) if run.is_messages else control(broker, row)
            except nc.InvalidInput:
                continue
            for update in updates:
                told[str(update.subscription)].append((event, update))
    return told


async def test_the_log_says_what_a_plain_broker_says(tmp_path: Path) -> None:
    for seed in range(4):
        await live_through(tmp_path / str(seed), seed)


async def live_through(data: Path, seed: int) -> None:
    rng = random.Random(seed)
    async with Life(data, segment_bytes=2**20) as life:  # all of the log is read at the end
        clock, number = 100, 0
        for round_ in range(12):
            sent = []
            for _ in range(rng.randint(1, 8)):
                clock += rng.randint(0, 4)
                if rng.random() < 0.6:
                    rows = [post(rng, number + n, clock) for n in range(rng.randint(1, 4))]
                    number += len(rows)
                    sent.append(life.send([Part(pa.Table.from_pylist(rows, MESSAGES), len(rows))]))
                else:
                    sent.append(life.send(lines(line(rng, clock))))
            await asyncio.gather(*sent)
            if round_ == 5 and seed == 0:
                await life.backend.snapshot()
            if round_ % 3 == 2:
                await life.again()
        expected, found = judged(data), {id: list[Any]() for id in IDS}
        assert life.backend.state.updates is not None
        for told in life.backend.state.updates.read(0, life.backend.state.event, set(IDS)):
            for row in told.updates.to_pylist():
                found[row["subscription"]].append((told.event, nc.Update(**row)))
        assert found == expected
        assert sum(map(len, found.values())) > 10


def test_the_clock_of_the_wall(tmp_path: Path) -> None:
    with running(tmp_path, clock="wall", window_count=None, window_age=60.0) as server:
        server.put("w", WITHIN)
        talk = server.socket()
        talk.say({"attach": ["w"], "after": "now"})
        talk.hear("attached")
        body = {"id": "m", "lon": 1, "lat": 1, "text": "tram"}
        now = int(time.time() * 1000)
        assert server.http.post("/v1/messages", json=body).json()["accepted"] == 1
        assert abs(talk.hear("u")["messages"]["m"]["ts"] - now) < 60_000
        ahead = server.http.post("/v1/messages", json={**body, "id": "n", "ts": now + 600_000})
        assert (ahead.status_code, ahead.json()["field"]) == (422, "ts")
        old = server.http.post("/v1/messages", json={**body, "id": "o", "ts": now - 120_000}).json()
        assert (old["accepted"], [late["row"] for late in old["late"]]) == (0, [0])
        server.put("w", {**WITHIN, "expires": int(time.time() * 1000) + 1_500})
        assert talk.hear("end") == {"end": "w", "reason": "expired"}
        talk.close()
