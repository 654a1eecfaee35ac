"""Random damage to snapshots: a damaged file is refused with `SnapshotError`, or gives a broker that answers the same.

The same means what the undamaged file would give: the results of all subscriptions, and all that the next events say.
"""

from __future__ import annotations

import random
import re
import tempfile
from pathlib import Path
from typing import Any

from compare import identical
from strategies import Setting

import nearcast as nc
from fuzz.streams import Batch, crowd, cut, few
from fuzz.ways import Singles, Whole, made
from nearcast.errors import SnapshotError

N_DAMAGES = 12
N_AFTER = 40  # events that a restored broker is asked


def snapshots_round(seed: int) -> None:
    """Some damages to the snapshot of a broker in the midst of a stream."""
    pick = random.Random(seed)
    setting, events = few(seed) if pick.random() < 0.7 else crowd(seed)
    half = pick.randrange(len(events))
    before, after = cut(events[:half], seed), cut(events[half : half + N_AFTER], seed)
    ids = sorted({event.arguments[0] for event in events if event.method == "subscribe"}, key=repr)
    with tempfile.TemporaryDirectory() as folder:
        whole, damaged = Path(folder) / "whole", Path(folder) / "damaged"
        _write(setting, before, whole)
        for number in range(N_DAMAGES):
            what, data = _damage(pick, whole.read_bytes())
            damaged.write_bytes(data)
            try:
                broker = nc.Broker.restore(damaged)
            except SnapshotError:
                continue
            except Exception as error:
                raise AssertionError(f"damage {number}, {what}: {type(error).__name__}: {error}") from error
            try:
                _compare(Singles(broker), Singles(nc.Broker.restore(whole)), ids, after)
            except Exception as error:
                raise AssertionError(f"damage {number}, {what}, was taken: {type(error).__name__}: {error}") from error


def _write(setting: Setting, batches: list[Batch], path: Path) -> None:
    taker = Whole(made(nc.Broker, setting))
    for batch in batches:
        taker.take(batch)
    taker.broker.snapshot(path)


def _compare(ours: Singles, theirs: Singles, ids: list[Any], batches: list[Batch]) -> None:
    for batch in batches:
        _same_results(ours, theirs, ids)
        (updates, *rest), (expected, *others) = ours.take(batch), theirs.take(batch)
        assert rest == others, f"other rejects: {batch}"
        identical(updates, expected)
    _same_results(ours, theirs, ids)


def _same_results(ours: Singles, theirs: Singles, ids: list[Any]) -> None:
    for id in ids:
        assert ours.results(id) == theirs.results(id), f"other results of {id!r}"


def _damage(pick: random.Random, data: bytes) -> tuple[str, bytes]:
    """What was done to the bytes of a file, and the bytes then."""
    at, n = pick.randrange(len(data)), pick.choice((1, 1, 4, 64, 4096))
    kind = pick.choice(("bit", "bit", "bytes", "zeros", "cut", "longer", "gone", "twice", "swapped", "number"))
    if kind == "bit":
        bit = pick.randrange(8)
        return f"bit {bit} of byte {at}", data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
    if kind == "bytes":
        return f"{n} bytes at {at}", data[:at] + pick.randbytes(n) + data[at + n :]
    if kind == "zeros":
        return f"{n} zeros at {at}", data[:at] + bytes(n) + data[at + n :]
    if kind == "cut":
        return f"cut at {at}", data[:at]
    if kind == "longer":
        return f"{n} bytes more", data + pick.randbytes(n)
    if kind == "gone":
        return f"{n} bytes gone at {at}", data[:at] + data[at + n :]
    if kind == "twice":
        return f"{n} bytes twice at {at}", data[: at + n] + data[at:]
    if kind == "swapped":
        to = pick.randrange(len(data))
        low, high = sorted((at, to))
        n = min(n, high - low, len(data) - high)
        swapped = data[:low] + data[high : high + n] + data[low + n : high] + data[low : low + n] + data[high + n :]
        return f"{n} bytes at {low} and {high} swapped", swapped
    numbers = list(re.finditer(rb"\d+", data[:20_000]))
    found = pick.choice(numbers)
    given = str(pick.choice((0, 1, 2**31, 2**63, -1, int(found[0]) + 1))).encode()
    return f"{found[0]!r} at {found.start()} becomes {given!r}", data[: found.start()] + given + data[found.end() :]
