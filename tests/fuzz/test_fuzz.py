"""A small fixed part of `make fuzz`: the same rounds every time."""

from __future__ import annotations

import os

import pytest

from fuzz.rounds import ROUNDS
from fuzz.streams import crowd, cut, few
from fuzz.tight import TIGHT, tightened

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
FIXED = {"few": 4, "crowd": 4, "long": 1, "expressions": 3}  # rounds of each kind

pytestmark = pytest.mark.skipif(not COMPILED, reason="rounds are long")


@pytest.fixture(autouse=True)
def _volatile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots need not outlive the machine."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), [(name, seed) for name, n in FIXED.items() for seed in range(n)])
def test_fixed_rounds(name: str, seed: int) -> None:
    ROUNDS[name](seed)


def test_cutting_loses_nothing() -> None:
    for make in (few, crowd):
        _, events = make(1)
        assert [event for batch in cut(events, 1) for event in batch.events] == events


def test_a_seed_gives_the_same_stream_again() -> None:
    for make in (few, crowd):
        assert repr(make(7)) == repr(make(7))


def test_constants_that_are_made_small_are_there() -> None:
    with tightened(1.0, 0) as names:
        assert names == list(TIGHT)
