"""Every kernel is compiled once: a second signature costs seconds at some later moment, in the midst of the stream.

The events below are those of a long life: all kinds of query, windows of every sort and none, both metrics, Arrow and
objects, moves, new weights, expiries, explanations, a snapshot and what follows a restore.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from contract.contenders import Town
from numba import types

import nearcast as nc
from nearcast.broker.warm import compile_kernels
from nearcast.jit import KERNELS
from nearcast.model.kinds import LABELS

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"

pytestmark = pytest.mark.skipif(not COMPILED, reason="kernels are not compiled")


def live(broker: nc.Broker, town: Town, kinds: tuple[str, ...], first: int) -> None:
    """A part of a broker's life."""
    broker.subscribe_many([(first + n, town.query(kinds[n % len(kinds)])) for n in range(40)])
    broker.publish(town.messages(700, first))
    broker.publish(next(town.messages(1, first + 700)))
    rows = [(m.id, m.lon, m.lat, list(m.keywords or ()), m.ts) for m in town.messages(30, first + 800)]
    broker.publish(
        pa.table(dict(zip(("id", "lon", "lat", "keywords", "ts"), map(list, zip(*rows, strict=True)), strict=True)))
    )
    regions = [nc.Circle(3, 3, 2), nc.Polygon([(0, 0), (9, 0), (0, 9)]), nc.Box(0, 0, 5, 5)]
    for n in range(12):
        kind = kinds[n % len(kinds)]
        if kind == "within":
            broker.move(first + n, region=regions[n % 3])
        elif kind != "nearest" or broker.window is not None:
            broker.move(first + n, lon=n, lat=1.5)
        for message, _ in broker.results(first + n)[:1]:
            broker.explain(first + n, message)
    broker.reweigh(nc.Weights.fit(["word0 word1", "word2"]))
    broker.subscribe_many(
        pa.table(
            {
                "id": [first + 50],
                "kind": ["nearest"],
                "lon": [1.0],
                "lat": [1.0],
                "keywords": ["word0"],
                "expires": [first],
            }
        )
    )
    broker.unsubscribe_many(range(first, first + 20))
    broker.advance(10 * first + 8100)
    broker.check()


def exercise(folder: Path) -> None:
    windows = [nc.Window(count=90), nc.Window(age=1.5), nc.Window(count=200, age=1, max_ahead=100), nc.Window(), None]
    for n, window in enumerate(windows):
        town = Town(n)
        space = nc.Space((0, 0, 16, 16), ("euclidean", "haversine")[n % 2])
        broker = nc.Broker(space, window, nc.Weights.fit([" ".join(town.some_words(6)) for _ in range(20)]))
        kinds = tuple(kind for kind in LABELS if kind != "topk" or window is not None)
        live(broker, town, kinds, 0)
        broker.snapshot(folder / str(n))
        live(nc.Broker.restore(folder / str(n)), town, kinds, 1000)


def shape(kind: Any) -> Any:
    """A type without the width of its plain integers.

    A slot is an int32 in an array and an int64 in a loop. A kernel that takes both compiles the second together with
    the kernel that calls it, never later; and no array is copied or refused for it.
    """
    if isinstance(kind, types.Integer):
        return "integer"
    if isinstance(kind, types.BaseTuple) and not isinstance(kind, types.BaseNamedTuple):
        return tuple(shape(inner) for inner in kind.types)
    return str(kind)


CHECKING = {
    "mark_of", "known_since", "can_decide_alone", "clause_at", "code_of", "find_entry", "first_byte", "hash_of",
    "rows_in_lines", "room_of", "is_ranged", "field_at", "n_codes_of",
}  # fmt: skip


def the_warm_up_compiles_everything(folder: Path) -> None:
    compile_kernels()
    before = {kernel: kernel.n_compiled for kernel in KERNELS}
    exercise(folder)
    later = {kernel.__name__ for kernel in KERNELS if kernel.n_compiled != before[kernel]}
    assert later <= CHECKING  # which `check` calls by themselves, and nothing else


def every_kernel_has_one_signature(folder: Path) -> None:
    exercise(folder)
    several = {
        f"{kernel.py_func.__module__}.{kernel.__name__}": kernel.signatures
        for kernel in KERNELS
        if len({tuple(map(shape, signature)) for signature in kernel.signatures}) > 1
    }
    assert not several, several


def a_second_life_compiles_nothing() -> None:
    before = {kernel: kernel.n_compiled for kernel in KERNELS}
    town = Town(99)
    for window in (nc.Window(count=77, age=3), None):
        kinds = tuple(kind for kind in LABELS if kind != "topk" or window is not None)
        live(
            nc.Broker(nc.Space((-5, -5, 40, 40), "haversine"), window),
            town,
            kinds,
            np.random.default_rng(1).integers(9),
        )
    assert [kernel.__name__ for kernel in KERNELS if kernel.n_compiled != before[kernel]] == []


def one_life_and_another(folder: Path) -> None:
    every_kernel_has_one_signature(folder)
    a_second_life_compiles_nothing()


@pytest.mark.slow
@pytest.mark.parametrize("check", [the_warm_up_compiles_everything, one_life_and_another])
def test_alone(check: Callable[[Path], None], tmp_path: Path) -> None:
    """In a process of its own: other tests call kernels in ways of their own."""
    here = Path(__file__)
    code = f"import pathlib, {here.stem} as t; t.{check.__name__}(pathlib.Path({str(tmp_path)!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=here.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
