"""Compiles the kernels of query kinds ahead, by living through a few events of every sort in a throw-away broker.

As a program it does less, for a process that is about to publish (`compile_ahead.py`).
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from nearcast.broker.broker import Broker
from nearcast.broker.compile_ahead import COMPILE_AHEAD, claim, finish
from nearcast.kernel_cache import kernel_folder, module_digest
from nearcast.model.kinds import LABELS
from nearcast.model.message import Message
from nearcast.space.space import Space
from nearcast.text.weights import Weights
from nearcast.window.window import Window

_PLACE: dict[str, Any] = {"lon": 1, "lat": 1, "keywords": "a b"}
_RING = [[[0, 0], [2, 0], [2, 2], [0, 0]]]
_QUERIES: tuple[dict[str, Any], ...] = (
    {"kind": "within", "region": [0, 0, 2, 2], "keywords": "a OR (b AND NOT c)"},
    {"kind": "within", "region": {"type": "Circle", "coordinates": [1, 1], "radius": 9}, "keywords": ["a"]},
    {"kind": "within", "region": {"type": "Polygon", "coordinates": _RING}, "keywords": "a"},
    {"kind": "within", "region": [0, 0, 2, 2], "keywords": '"b c" OR aa* NOT "c b"'},
    {"kind": "similar", **_PLACE, "delta": 0.5, "tau": 0.1},
    {"kind": "topk", **_PLACE, "k": 1, "decay": 1},
    {"kind": "topk", **_PLACE, "k": 1},
    {"kind": "nearest", **_PLACE, "k": 1},
    {"kind": "nearest", **_PLACE, "k": 1, "match": "any"},
)
_MANY = 600  # more subscriptions than one leaf or list holds, so that indexes split, and more messages than live


def are_compiled() -> bool:
    """Are the kernels of all kinds in the cache, as far as was noted there?"""
    return _note().exists()


def note_compiled() -> None:
    """Note in the cache, if there is one, that the kernels of all kinds are there."""
    with contextlib.suppress(OSError):
        _note().touch()


def _note() -> Path:
    return kernel_folder() / f"warm-{module_digest(compile_kernels.__module__)}"


def compile_all() -> None:
    """Compile the kernels of all kinds for the process that holds the other end of this one's input; end with it."""
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(1)), daemon=True).start()
    compile_kernels()
    note_compiled()


def compile_kernels(kinds: Collection[str] = LABELS) -> None:
    """Compile what these kinds need, unless that was done before."""
    COMPILE_AHEAD.forbid()
    for metric, window in (
        ("euclidean", Window(count=400, age=10.0)),
        ("haversine", Window(count=90)),
        ("euclidean", None),
    ):
        for kind in kinds:
            if window is not None or kind != "topk":
                _live([query for query in _QUERIES if query["kind"] == kind], Space((0, 0, 2, 2), metric), window)


def _live(queries: list[dict[str, Any]], space: Space, window: Window | None) -> None:
    broker = Broker(space, window, Weights.fit(["a b", "é"]))
    for round_ in range(3):
        first = round_ * 10_000
        broker.publish(list(_messages(first)))
        broker.subscribe_many([{"id": first + _MANY, **queries[0]}])  # a few, when many messages are live
        to: dict[str, Any] = {"region": [0, 0, 1, 1]} if "region" in queries[0] else {"lon": 0.5, "lat": 0.5}
        may_move = window is not None or queries[0]["kind"] != "nearest"
        if may_move:
            broker.move_many([{"id": first + _MANY, **to}] * _MANY)
        broker.publish(list(_messages(first + 2_000)))
        broker.subscribe_many([{"id": first + n, **query} for n, query in enumerate(_crowd(queries))])
        broker.publish(list(_messages(first + 1_000)))
        broker.publish(pa.table({"id": [first + 9_000], "lon": [1.0], "lat": [1.0], "text": ["a b"], "ts": [first]}))
        if may_move:
            broker.move_many([{"id": first + n, **to} for n in range(len(queries))])
        for message, _ in broker.results(first):
            broker.explain(first, message)
        if window is not None:
            broker.update(list(_messages(first + 1_000)))
            broker.retract(first + 1_000 + _MANY - 1)
            broker.estimate(broker.subscription(first).query)
        broker.match(Message(first + 8_000, 1, 1, "a b c", ts=first + 1_000))
        broker.reweigh(Weights.fit(["a c", "b", "é"]))
        broker.advance(first + 5_000)
        broker.unsubscribe_many(range(first, first + _MANY // 2))
        with tempfile.TemporaryDirectory() as folder:
            broker.snapshot(Path(folder) / "snapshot")
            broker = Broker.restore(Path(folder) / "snapshot")
        rows = broker.export_subscriptions(broker.subscription_ids)
        broker.unsubscribe_many(broker.subscription_ids)
        broker.adopt(rows)
        broker.check()


def _crowd(queries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for n in range(_MANY):
        query = {**queries[n % len(queries)], **({"expires": 8_000} if n % 7 == 6 else {})}
        if "lon" in query:
            query |= {"lon": n % 11 / 5, "lat": n % 13 / 6, "keywords": "abc"[n % 3]}
        if "k" in query:
            query["k"] = 1 + n % 5
        if n % 4 == 0:
            query["where"] = ("n < 2", "kind = 'a' OR kind = 'b'", "n = 1 AND kind > 'a'")[n % 3]
        yield query


def _messages(first: int) -> Iterator[Message]:
    for n in range(_MANY):
        fields = None if n % 5 == 4 else {"n": n % 3, "kind": "abc"[n % 3], "tags": ("a", "b")[: n % 3]}
        yield Message(first + n, n % 17 / 8, n % 19 / 9, "a é b c"[: 2 + n % 5], ts=first + n // 2, fields=fields)


_IDLE_S = 30.0  # without a step, after which a program that compiles ahead ends
_STEPS: dict[str, dict[str, Any]] = {
    "within": _QUERIES[0],
    "similar": _QUERIES[4],
    "topk": _QUERIES[6],
    "nearest-all": _QUERIES[7],
    "nearest-any": _QUERIES[8],
}


def compile_steps(metric: str, window: Window | None, folder: Path) -> None:
    """Compile what a first publish needs: for no subscriptions at once, for each sort of them when its line comes."""
    space = Space((0, 0, 2, 2), metric)
    Broker(space, window).publish([Message(n, n / 4, n / 4, "a b", ts=n) for n in range(2)])
    while step := _next_step():
        if claim(folder, step):
            broker = Broker(space, window)
            broker.subscribe_many([{"id": step, **_STEPS[step]}])
            broker.publish([Message(n, n / 4, n / 4, "a b", ts=n) for n in (2, 3, 4)])
            finish(folder, step)


def _next_step() -> str:
    idle = threading.Timer(_IDLE_S, os._exit, (0,))
    idle.start()
    try:
        return sys.stdin.readline().strip()
    finally:
        idle.cancel()


if __name__ == "__main__":
    _metric, _life, _folder = json.loads(sys.argv[1])
    compile_steps(_metric, None if _life is None else Window(*_life), Path(_folder))
