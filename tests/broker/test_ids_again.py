"""Ids that come again and again in one batch, as soon as the window lets them: the same as one by one, in one go."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

import nearcast as nc

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
N = 600 if COMPILED else 60
SPACE = nc.Space((0, 0, 16, 16), metric="euclidean")
QUERIES: list[nc.Query] = [
    nc.Within(nc.Box(0, 0, 8, 8), "a OR b"),
    nc.Similar(4, 4, "a b", delta=0.5, tau=0.4),
    nc.TopK(4, 4, "a b", k=2),
    nc.Nearest(4, 4, "a", k=2),
    nc.Nearest(4, 4, "a b", k=2, match="any"),
]

Row = tuple[int, int | None, int | None]  # id, ts, expires
PATTERNS: dict[str, tuple[nc.Window, Callable[[int], Row]]] = {
    "two ids at a count of 1": (nc.Window(count=1), lambda i: (i % 2, None, None)),
    "three ids at a count of 2": (nc.Window(count=2), lambda i: (i % 3, None, None)),
    "six ids at a count of 5": (nc.Window(count=5), lambda i: (i % 6, None, None)),
    "some are taken": (nc.Window(count=5), lambda i: (i % 4 if i % 3 else i % 7, None, None)),
    "one id that has aged": (nc.Window(age=1), lambda i: (0, 1000 * i, None)),
    "one id, aged or not": (nc.Window(age=1), lambda i: (0, 700 * i, None)),
    "one id with its own expiry": (nc.Window(count=9), lambda i: (0, 10 * i, 10 * i + 5)),
    "late ones between": (nc.Window(count=1, age=1), lambda i: (i % 2, 500 * i - 3000 * (i % 5 == 4), None)),
    "ahead of the clock": (nc.Window(count=1, max_ahead=1), lambda i: (i % 2, 100 * i + 9000 * (i % 4 == 3), None)),
}


def made(pattern: str) -> tuple[nc.Broker, list[nc.Message]]:
    window, row = PATTERNS[pattern]
    broker = nc.Broker(SPACE, window=window)
    broker.subscribe_many([(at, query) for at, query in enumerate(QUERIES)])
    rows = [row(i) for i in range(N)]
    return broker, [
        nc.Message(id, i % 11, i % 5, "a" if i % 3 else "a b", ts=ts, expires=expires)
        for i, (id, ts, expires) in enumerate(rows)
    ]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_batch_says_what_single_messages_say(pattern: str) -> None:
    broker, messages = made(pattern)
    updates = broker.publish(messages)
    broker.check()
    one_by_one, _ = made(pattern)
    said: list[Any] = []
    refused, late = [], []
    for row, message in enumerate(messages):
        try:
            single = one_by_one.publish(message)
        except nc.InvalidInput as error:
            refused.append((row, error.field, str(error)))
        else:
            said += list(single)
            late += [(row, one.field, one.reason) for one in single.late]
    assert list(updates) == said
    assert [(one.row, one.field, one.reason) for one in updates.rejects] == refused
    assert [(one.row, one.field, one.reason) for one in updates.late] == late
    for at in range(len(QUERIES)):
        assert broker.results(at) == one_by_one.results(at)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_batch_is_admitted_in_one_go(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it was cut before every id that had come and gone in it; each piece cost as much as all the rest."""
    broker, messages = made(pattern)
    admit, sizes = broker.parts.context.live.admit, []

    def counted(batch: Any, *given: Any) -> Any:
        sizes.append(batch.x.size)
        return admit(batch, *given)

    monkeypatch.setattr(broker.parts.context.live, "admit", counted)
    broker.publish(messages)
    assert sizes == [N]
