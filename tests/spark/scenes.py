"""Seeded streams of every kind of event, good rows and bad, and what one broker says to them."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

import nearcast as nc
from nearcast.model.codec import event_from_json
from nearcast.model.event import Move, Subscribe

SPACE = nc.Space((0, 0, 8, 8), metric="euclidean")
WINDOW = nc.Window(count=60, age=40.0)
ANALYZER = nc.Analyzer("english", "english", "fold", "bigrams")
WORDS = ("ant", "bee", "cat", "dog", "eel", "fox")
MESSAGES = (
    "event string, id bigint, lon double, lat double, text string, keywords array<string>, ts bigint, expires bigint,"
    " fields string, position bigint"
)
CONTROLS = (
    "event string, id string, kind string, lon double, lat double, region string, keywords string, k bigint,"
    " alpha double, delta double, tau double, match string, backfill boolean, where string, ts bigint, expires bigint,"
    " position bigint"
)

PLACED = CONTROLS + ", shard bigint"  # with assigns

Row = dict[str, Any]


@dataclass
class Said:
    """What came out: updates of each subscription in order, and the rows that were refused or late."""

    updates: dict[str, list[tuple[Any, ...]]]
    refused: list[tuple[Any, ...]]
    late: list[tuple[Any, ...]]

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Said)
        assert self.updates == other.updates
        assert sorted(self.refused, key=repr) == sorted(other.refused, key=repr)
        assert sorted(self.late, key=repr) == sorted(other.late, key=repr)
        return True


def messages_of(seed: int, n: int, start: int = 0) -> list[Row]:
    """Messages with fields, ties, duplicates, expiries, late ones and bad rows."""
    rng = np.random.default_rng([seed, start])
    rows = []
    for i in range(start, start + n):
        row: Row = {
            "id": i,
            "lon": float(rng.integers(0, 9)),
            "lat": float(rng.integers(0, 9)),
            "ts": 500 * (i // 3),
            "position": i,
        }
        words = [str(word) for word in rng.choice(WORDS, rng.integers(1, 4))]
        row |= {"text": " ".join(words)} if rng.random() < 0.8 else {"keywords": words}
        if rng.random() < 0.5:
            row["fields"] = f'{{"price": {rng.integers(0, 4)}, "tags": ["{rng.choice(WORDS)}", "new"]}}'
        if rng.random() < 0.1:
            row["expires"] = row["ts"] + int(rng.integers(-500, 9_000))
        if rng.random() < 0.04:
            row["id"] = max(0, i - int(rng.integers(1, 5)))
        if rng.random() < 0.03:
            row |= [
                {"lon": None},
                {"lat": float("nan")},
                {"text": "x", "keywords": ["x"]},
                {"fields": "[1]"},
                {"ts": 2**63 - 1},
            ][i % 5]
        rows.append(row)
    return rows


def changes_of(seed: int, messages: list[Row]) -> list[Row]:
    """Updates and retractions of some messages, and of some that are not there."""
    rng = np.random.default_rng([seed, 9])
    rows: list[Row] = []
    for at in rng.integers(0, len(messages), len(messages) // 4).tolist():
        row = messages[at]
        if (ts := row["ts"]) > 2**60:
            continue
        later = {"id": row["id"], "ts": ts + int(rng.integers(0, 8)) * 500, "position": 1_000_000 + len(rows)}
        if rng.random() < 0.4:
            rows.append({"event": "retract", **later})
        else:
            other = messages[int(rng.integers(0, len(messages)))]
            rows.append({**other, "event": "update", **later, "expires": None})
    return rows


def controls_of(seed: int, n: int, last_ts: int) -> list[Row]:
    """Subscriptions of all kinds, moves, ends, expiries and steps of the clock; some cannot be honoured."""
    rng = np.random.default_rng([seed, 7])
    rows: list[Row] = []
    for i in range(n):
        ts = int(rng.integers(0, last_ts)) // 250 * 250 if i >= n // 4 else 0
        rows.append({"event": "subscribe" if i % 2 else None, "ts": ts, **_query(rng, i)})
        if rng.random() < 0.2:
            rows[-1]["expires"] = ts + int(rng.integers(0, 20_000))
    for i in range(n // 2):
        ts, at = int(rng.integers(0, last_ts)) // 250 * 250, int(rng.integers(0, n + 2))
        row: Row = {"event": "move", "id": f"s{at}", "ts": ts}
        if at % 5 == 0:
            row["region"] = f"[{i % 4}, 0, 7, 6.5]"
        else:
            row |= {"lon": float(rng.integers(0, 9)), "lat": 3.0}
        rows.append(row)
        if i % 3 == 0:
            rows.append({"event": "unsubscribe", "id": f"s{rng.integers(0, n + 2)}", "ts": ts + 250})
    rows += [
        {"event": "advance", "ts": last_ts // 2 + 700},
        {"event": "dance", "id": "s1", "ts": 3},
        {"event": "move", "ts": 1},
    ]
    return [{**row, "position": at} for at, row in enumerate(rows)]


def _query(rng: np.random.Generator, i: int) -> Row:
    words = " ".join(str(word) for word in rng.choice(WORDS, 2))
    place = {"lon": float(rng.integers(0, 9)), "lat": float(rng.integers(0, 9))}
    kind = i % 5
    row: Row = {"id": f"s{i}" if rng.random() > 0.05 else "s0", "keywords": words}
    if kind == 0:
        row |= {"kind": "within", "region": f"[1, 1, {2 + i % 6}, 7]", "keywords": words.replace(" ", " OR ")}
        row |= [{"keywords": f'"{words}" OR an*'}, {"keywords": f'["{words}", "eel"]'}, {}, {}][i // 5 % 4]
    elif kind == 1:
        row |= {"kind": "similar", **place, "delta": 0.5, "tau": 0.55}
    elif kind == 2:
        row |= {"kind": "topk", **place, "k": 3, "alpha": 0.5}
    else:
        row |= {"kind": "nearest", **place, "k": 2, "match": "all" if kind == 3 else "any"}
    row |= {"where": ("price < 2", "tags = 'new' AND NOT price = 3", "price <")[i % 3]} if rng.random() < 0.2 else {}
    row |= {"backfill": False} if rng.random() < 0.2 else {}
    return row if rng.random() > 0.05 else {**row, "k": 0, "kind": "topk", **place}


def inflected(seed: int, rows: list[Row]) -> list[Row]:
    """The same rows with words in forms that an analyzer makes one of, and some that it leaves out or cuts."""
    rng = np.random.default_rng([seed, 10])

    def other(found: re.Match[str]) -> str:
        return str(
            rng.choice([found[0], found[0] + "s", found[0].replace("e", "é"), "the " + found[0], "東京" + found[0]])
        )

    def changed(value: Any) -> Any:
        if isinstance(value, str):
            return re.sub("|".join(WORDS), other, value)
        return [found[-1] for word in value if (found := changed(word).split())]

    return [
        {k: changed(v) if k in ("text", "keywords") and v is not None else v for k, v in row.items()} for row in rows
    ]


def assigns_of(seed: int, n: int, last_ts: int) -> list[Row]:
    """Subscriptions are sent from shard to shard."""
    rng = np.random.default_rng([seed, 8])
    times = (rng.integers(0, last_ts, n) // 250 * 250).tolist()
    return [
        {"event": "assign", "id": f"s{rng.integers(0, n)}", "shard": int(rng.integers(0, 2)), "ts": ts, "position": at}
        for at, ts in enumerate(times)
    ]


def frame(spark: Any, rows: list[Row], ddl: str) -> Any:
    """Rows as a frame in no order."""
    columns = [part.strip().split(" ")[0] for part in ddl.split(",")]
    shuffled = [rows[at] for at in np.random.default_rng(3).permutation(len(rows))]
    return spark.createDataFrame([tuple(row.get(name) for name in columns) for row in shuffled], ddl)


def key(row: Row, is_message: bool) -> tuple[Any, ...]:
    ts, id = row.get("ts"), row.get("id")
    return (
        -1e30 if ts is None else ts,
        is_message,
        ("", 0) if id is None else (str(type(id)), id),
        row["position"],
    )


class One:
    """One broker that is given everything in order, row by row."""

    def __init__(
        self,
        window: nc.Window | None = WINDOW,
        weights: nc.Weights | None = None,
        analyzer: nc.Analyzer | None = None,
    ) -> None:
        self.broker = nc.Broker(SPACE, window, weights, analyzer=analyzer)
        self.said = Said(defaultdict(list), [], [])

    def take(self, messages: list[Row], controls: list[Row]) -> Said:
        events = [(key(row, False), row) for row in controls] + [(key(row, True), row) for row in messages]
        for (_, is_message, _, _), row in sorted(events, key=lambda event: event[0]):
            given = {name: value for name, value in row.items() if value is not None and name != "position"}
            updates = self._message(given) if is_message else self._control(given)
            for one in updates or ():
                self.said.updates[one.subscription].append((one.message, one.sign, one.score, one.ts))
        return self.said

    def _message(self, row: Row) -> nc.Updates:
        event, id = row.pop("event", "publish"), row.get("id")
        if event == "retract":
            try:
                return self.broker.retract(row["id"])
            except nc.InvalidInput as error:
                self.said.refused.append((event, id, error.field, str(error)))
                return nc.Updates.none()
        updates = self.broker.update([row]) if event == "update" else self.broker.publish([row])
        self.said.refused += [(event, id, one.field, one.reason) for one in updates.rejects]
        self.said.late += [(event, id, one.field, one.reason) for one in updates.late]
        return updates

    def _control(self, row: Row) -> Any:
        event = row.get("event", "subscribe")
        try:
            if event == "assign":
                return None
            if event == "advance":
                return self.broker.advance(row["ts"])
            if isinstance(row.get("region"), str):
                row = {**row, "region": [float(side) for side in row["region"][1:-1].split(",")]}
            if row.get("keywords", "").startswith("["):
                row = {**row, "keywords": json.loads(row["keywords"])}
            parsed = event_from_json({**row, "event": event})
            if isinstance(parsed, Subscribe):
                return self.broker.subscribe(
                    parsed.subscription.id, parsed.subscription.query, parsed.subscription.expires
                )
            if isinstance(parsed, Move):
                return self.broker.move(parsed.id, parsed.lon, parsed.lat, parsed.region)
            return self.broker.unsubscribe(row["id"])
        except nc.InvalidInput as error:
            self.said.refused.append((event, row.get("id"), error.field, None))
            return None


def said_by(answers: list[Any]) -> Said:
    """The same of rows of answers; reasons of control events are worded by another door, and are not compared."""
    said = Said(defaultdict(list), [], [])
    for row in sorted(answers, key=lambda row: (row.batch, row.shard, row.seq)):
        if row.outcome == "update":
            said.updates[row.subscription].append((row.message, row.sign, row.score, row.ts))
            continue
        event = row.event or ("subscribe" if row.message is None and row.subscription is not None else "publish")
        of_message = event in ("publish", "update", "retract")
        shown = (event, row.message if of_message else row.subscription, row.field, row.reason if of_message else None)
        (said.refused if row.outcome == "reject" else said.late).append(shown)
    return said
