"""Every peer answers every kind as Nearcast does, on a small task; a wrong answer is seen."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from nearcast.cli import bench as command

command.part("figure")
from bench.open.truth import Truth  # noqa: E402
from bench.open.workload import KINDS, Workload, make  # noqa: E402
from bench.peers import __main__ as running  # noqa: E402
from bench.peers.base import Peer, Unable  # noqa: E402
from bench.peers.ours import Nearcast  # noqa: E402

PEERS = [system for system in running.SYSTEMS if system is not Nearcast]


@cache
def small(kind: str) -> Workload:
    return make(kind, 5_000 if kind == "within" else 300, 300, 200)


def answers(system: type[Peer], kind: str) -> Iterator[Any]:
    """What a system says after each of four batches; skips where it is not installed."""
    workload = small(kind)
    peer = system(workload)
    try:
        peer.load()
    except (Unable, ImportError) as error:
        pytest.skip(f"{system.name}: {error}")
    try:
        for at in range(0, 200, 50):
            peer.publish(workload.messages.slice(300 + at, 50))
            yield peer.pairs()
    finally:
        peer.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("system", PEERS, ids=lambda system: system.name)
def test_answers_are_nearcast_s(system: type[Peer], kind: str) -> None:
    truth = Truth(small(kind))
    told = 0
    for theirs, ours in zip(answers(system, kind), answers(Nearcast, kind), strict=True):
        assert theirs == ours or running.alike(truth, theirs, ours)
        told += len(ours)
    assert told > 5


def test_a_wrong_answer_is_seen() -> None:
    """One answer less, or one in the place of another: not alike, and not recorded."""
    truth, pairs = Truth(small("nearest_any")), next(answers(Nearcast, "nearest_any"))
    first = min(pairs)
    assert running.alike(truth, pairs, pairs)
    assert not running.alike(truth, pairs - {first}, pairs)
    assert not running.alike(truth, (pairs - {first}) | {(first[0], 299)}, pairs)

    class Wrong(Nearcast):
        name = "wrong"

        def pairs(self) -> Any:
            return set(list(super().pairs())[1:])

    options = argparse.Namespace(system=None, batch=50, batches=2, seconds=60)
    before, running.SYSTEMS = running.SYSTEMS, (Nearcast, Wrong)
    try:
        right, wrong = running.run(small("nearest_any"), options)
    finally:
        running.SYSTEMS = before
    assert right["n"] == 100
    assert "wrong" not in right
    assert wrong["wrong"].endswith("1 missing")
