"""Seeded streams of events in the JSON form, and what a single broker makes of them."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

import nearcast as nc
from nearcast.errors import InvalidInput
from nearcast.model.codec import event_from_json
from nearcast.model.event import Move, Publish, Subscribe

Json = dict[str, Any]
Told = dict[Any, list[tuple[Any, ...]]]  # subscription -> its updates in order

SPACE = nc.Space((-10, -10, 10, 10), "haversine")
WINDOW = nc.Window(count=60, age=120.0, max_ahead=3_600.0)
WORDS = ("fire", "smoke", "ramen", "sushi", "road", "closed", "music", "free")


class Answer(NamedTuple):
    """What a single broker says to a stream."""

    told: Told
    n_rejects: int
    n_late: int


def events(seed: int, n: int, *, numbers: bool = False) -> list[Json]:
    """A stream of all sorts of events with times, many of them equal, and some events that must be refused."""
    rng = random.Random(seed)
    made: list[Json] = []
    ts = 1_000_000
    for i in range(n):
        ts += rng.choice((0, 0, 1_000, 3_000))
        roll = rng.random()
        who = rng.randrange(12) if numbers else f"s{rng.randrange(12)}"
        if roll < 0.65:
            id_ = i if numbers else f"m{i}"
            message = {
                "event": "publish",
                "id": id_,
                **_place(rng),
                "text": " ".join(rng.choices(WORDS, k=3)),
                "ts": ts,
            }
            if rng.random() < 0.1:
                message["expires"] = ts + rng.choice((-1_000, 0, 5_000, 50_000))
            if rng.random() < 0.05:
                message["ts"] = ts - 500_000  # late
            if rng.random() < 0.02:
                message["ts"] = ts + 10_000_000  # too far ahead
            made.append(message)
        elif roll < 0.85:
            made.append({"event": "subscribe", "id": who, **_query(rng), "ts": ts})
        elif roll < 0.93:
            made.append({"event": "move", "id": who, **_place(rng), "ts": ts})
        else:
            made.append({"event": "unsubscribe", "id": who, "ts": ts})
    return made


def _place(rng: random.Random) -> Json:
    return {"lon": rng.randrange(-40, 40) / 4, "lat": rng.randrange(-40, 40) / 4}


def _query(rng: random.Random) -> Json:
    words = " ".join(rng.sample(WORDS, 2))
    place = _place(rng)
    return rng.choice(
        (
            {"kind": "within", "region": [-8, -8, 8, 8], "keywords": words.replace(" ", " OR ")},
            {"kind": "similar", **place, "keywords": words, "delta": 0.5, "tau": 0.6},
            {"kind": "topk", **place, "keywords": words, "k": 3, "alpha": 0.4},
            {"kind": "nearest", **place, "keywords": words, "k": 2, "match": "any"},
            {"kind": "nearest", **place, "keywords": words.split()[:1], "k": 2, "match": "all", "backfill": False},
        )
    )


def order(event: Json) -> tuple[Any, ...]:
    """The key by which events are processed; ties stay as they are."""
    ts = event.get("ts")
    named = event.get("event") or ("subscribe" if "kind" in event else "publish")
    return (ts is not None, ts or 0, named == "publish", event["id"])


def answer(stream: Sequence[Json], window: nc.Window | None = WINDOW, weights: nc.Weights | None = None) -> Answer:
    """What one broker says to the events in their order, one by one."""
    broker = nc.Broker(SPACE, window=window, weights=weights)
    told: Told = defaultdict(list)
    n_rejects = 0
    for json_form in sorted(stream, key=order):
        try:
            event = event_from_json(json_form)
            if isinstance(event, Publish):
                updates = broker.publish([event.message])
            elif isinstance(event, Subscribe):
                updates = broker.subscribe_many([event.subscription])
            elif isinstance(event, Move):
                updates = broker.move_many([event])
            else:
                updates = broker.unsubscribe_many([event.id])
        except InvalidInput:
            n_rejects += 1
            continue
        n_rejects += len(updates.rejects)
        for update in updates:
            told[update.subscription].append((update.message, update.sign, update.score, update.ts))
    return Answer(dict(told), n_rejects, broker.stats()["messages"]["late"])


def told_by(table: pa.Table) -> Told:
    """Each subscriber's updates in the order of (batch, seq)."""
    told: Told = defaultdict(list)
    for row in table.sort_by([("batch", "ascending"), ("seq", "ascending")]).to_pylist():
        told[row["subscription"]].append((row["message"], row["sign"], row["score"], row["ts"]))
    return dict(told)


def read_updates(out: Path) -> Told:
    """Each subscriber's updates, from every file in the output folder, as any reader would find them."""
    if list((out / "updates").glob("*.jsonl")):
        rows = [json.loads(line) for path in (out / "updates").iterdir() for line in path.read_text().splitlines()]
        return told_by(pa.Table.from_pylist(rows))
    return told_by(pq.read_table(out / "updates"))


def read_rejects(out: Path) -> list[Json]:
    """All rejects."""
    return [json.loads(line) for path in sorted((out / "rejects").glob("*")) for line in path.read_text().splitlines()]


def write_lines(path: Path, rows: Iterable[Json | str]) -> Path:
    """Write JSON lines, by rename, as a careful producer would."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name("." + path.name)
    draft.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    draft.rename(path)
    return path
