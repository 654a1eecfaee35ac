"""Rows of every kind of event that cannot be honoured: each is rejected by name, and nothing else is disturbed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cluster.scenes import answer, events, read_rejects, read_updates
from cluster.test_turn import Stage

NAN, INF = float("nan"), float("inf")
HUGE = "x" * 1_000_000
PLACE = {"lon": 1.0, "lat": 1.0}
MESSAGE: dict[str, Any] = {"event": "publish", "id": "hostile", **PLACE, "text": "fire smoke", "ts": 1_000_000}
WITHIN: dict[str, Any] = {
    "event": "subscribe",
    "id": "bad",
    "kind": "within",
    "region": [-8, -8, 8, 8],
    "ts": 1_000_000,
}
WITHIN |= {"keywords": "fire OR smoke"}
POINT: dict[str, Any] = {"event": "subscribe", "id": "bad", **PLACE, "keywords": "fire", "ts": 1_000_000}
TOPK, NEAREST = {**POINT, "kind": "topk", "k": 3}, {**POINT, "kind": "nearest", "k": 3}
SIMILAR = {**POINT, "kind": "similar", "delta": 0.5, "tau": 0.5}
MOVE: dict[str, Any] = {"event": "move", "id": "held", **PLACE, "ts": 1_000_001}
END: dict[str, Any] = {"event": "unsubscribe", "id": "held", "ts": 1_000_002}
MISSING = object()

# A row that is in order, a field of it, and what must not stand there.
WRONG: list[tuple[dict[str, Any], str, list[Any]]] = [
    (MESSAGE, "lon", ["east", NAN, INF, None, [1], True, {}, MISSING]),
    (MESSAGE, "lat", ["north", NAN, -INF, None, 95, -90.5, MISSING]),
    (MESSAGE, "text", [5, ["fire"], {}, None, MISSING]),
    (MESSAGE, "ts", ["soon", NAN, INF, 1.5, [1], True, 2**70]),
    (MESSAGE, "expires", ["soon", NAN, 1.5, {}]),
    (MESSAGE, "id", [None, [1], {}, True, 1.5, 2**70, MISSING]),
    (WITHIN, "id", [None, [1], {}, True, 1.5, MISSING, "held"]),
    (WITHIN, "kind", ["circle", 5, None, HUGE, MISSING]),
    (WITHIN, "region", ["here", HUGE, [0, 0, 1], [0, 0, NAN, 1], [5, 5, -5, -5], 7, None, MISSING]),
    (WITHIN, "region", [{}, {"type": "Circle"}, {"type": "Polygon", "coordinates": [[[0, 0], [1, 1]]]}]),
    (WITHIN, "keywords", ["", "AND", "fire AND (", 7, {}, None, MISSING]),
    (WITHIN, "ts", ["soon", INF]),
    (WITHIN, "expires", ["soon", NAN]),
    (TOPK, "k", [0, -1, 2.5, "three", NAN, 2**70]),
    (TOPK, "alpha", [2, -0.1, NAN, INF, "half"]),
    (TOPK, "lon", ["east", NAN, INF, None, MISSING]),
    (TOPK, "lat", [95, NAN, MISSING]),
    (TOPK, "keywords", ["", [], [""], 7, None, MISSING]),
    (NEAREST, "k", [0, "three"]),
    (NEAREST, "match", ["some", 5]),
    (SIMILAR, "delta", [2, NAN, "half"]),
    (SIMILAR, "tau", [-1, INF, MISSING]),
    (SIMILAR, "measure", ["guess", 7]),
    (MOVE, "id", ["nobody", None, [1], MISSING]),
    (MOVE, "lon", ["east", NAN, MISSING]),
    (MOVE, "lat", [95, INF]),
    (END, "id", ["nobody", None, {}, MISSING]),
    (MESSAGE, "event", ["explode", 5, HUGE]),
]  # fmt: skip
NO_ROWS = [
    "{broken",
    "[1, 2]",
    '"fire"',
    "null",
    "12",
    '{"event": "publish", "id": "h", "lon": 1, "lat": 1, "te',
    "\x00",
]


def hostile() -> list[tuple[str, str | None]]:
    """Lines, and the field that each must be refused for."""
    made: list[tuple[str, str | None]] = [(text, None) for text in NO_ROWS]
    for row, field, values in WRONG:
        for value in values:
            changed = {name: own for name, own in row.items() if name != field}
            if value is not MISSING:
                changed[field] = value
            made.append((json.dumps(changed), field))
    return made


@pytest.mark.parametrize("n_shards", [1, 3])
def test_hostile_rows_are_rejected_and_disturb_nobody(n_shards: int, tmp_path: Path) -> None:
    held = {**TOPK, "id": "held", "ts": 0}
    twin = {**MESSAGE, "id": "twin", "text": "fire " * 200_000}
    good = [held, twin, *events(9, 300)]
    bad = [*hostile(), (json.dumps(twin), "id")]
    lines: list[Any] = [json.dumps(row) for row in good]
    for number, (text, _) in enumerate(bad):
        lines.insert(2 + number * 2, text)  # behind the twin, and among all others
    stage = Stage(tmp_path, lines, n_shards=n_shards)
    for number in range(stage.n_batches):
        stage.note(number)
    expected = answer(good)
    assert read_updates(stage.out) == expected.told
    rejects = read_rejects(stage.out)
    told = {reject["row"]: reject for reject in rejects}
    assert len(rejects) == len(told) == len(bad) + expected.n_rejects + expected.n_late
    at = {number: row for row, number in enumerate(lines, start=1)}
    for text, field in bad:
        reject = told[at[text]]
        assert field is None or reject["field"] == field, reject
        assert reject["reason"].startswith(reject["field"]), reject
        assert len(reject["reason"]) < 1_000
        assert reject["text"]
