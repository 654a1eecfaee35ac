"""What a touch costs, by kind: `python -m bench.touches` times the real engines and prints the constants of `costs.py`.

Subscriptions of one kind are cut into groups by how many looks each expects for a check. Each group is given to a
broker of its own, with a full window or with none, and so is a quarter of it; the difference of their CPU times for the
same messages is what the other three quarters cost, without what a message costs anyway. Two constants that are not
negative, for a look and for a check, then explain these differences as well as they can (least squares).
"""

from __future__ import annotations

import sys
import time
from itertools import product
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from bench.cases.messages import Stream, batches
from bench.cases.within import STOP_WORDS
from bench.figure import SEED
from nearcast import Broker, Space, Window
from nearcast.engines.nearest.grid.insert import finest
from nearcast.partition.costs import GridInput, weigh_each
from nearcast.partition.footprint import COST_KINDS, find_footprints
from nearcast.partition.sample import Sample
from nearcast.workload import subscriptions

DATA = "poi_simplegeo_us"
QUARTER = 4
WITHOUT_WINDOW = ("nearest_all", "nearest_any")  # the others do not care, or need one
SUBSCRIPTIONS, LIVE, PUBLISHED, BATCH, GROUPS = 80_000, 50_000, 5_000, 1_000, 4


def draw(kind: str, source: subscriptions.Source, space: Space) -> pa.Table:
    """Subscriptions of one kind."""
    return pa.concat_tables(subscriptions.mixed(source, SUBSCRIPTIONS, SEED, shares={kind: 1.0}, bounds=space.bounds))


def expected(given: pa.Table, sample: Sample) -> tuple[np.ndarray, np.ndarray]:
    """Looks and checks that each subscription expects of a message."""
    found = find_footprints(given, sample)
    one = np.ones(len(COST_KINDS))
    grid = GridInput(sample.space.bounds, finest(SUBSCRIPTIONS // GROUPS))
    parts = np.zeros((given.num_rows, 2))
    weigh_each(found, sample.layout, grid, one, one, parts)
    looks, checks = parts[np.argsort(found.rows)].T
    return looks, checks


def cpu_ns(given: pa.Table | None, space: Space, window: Window | None, live: pa.Table, published: pa.Table) -> float:
    """CPU nanoseconds that a message takes in a broker with these subscriptions: the middle of all batches."""
    broker = Broker(space, window)
    if given is not None:
        broker.subscribe_many(given)
    for batch in batches(live, BATCH):
        broker.publish(batch)
    times = []
    for batch in batches(published, BATCH):
        began = time.process_time_ns()
        broker.publish(batch)
        times.append((time.process_time_ns() - began) / batch.num_rows)
    return median(times)


def explain(looks: np.ndarray, checks: np.ndarray, times: np.ndarray) -> tuple[float, float]:
    """Constants, none negative, that explain the times best, each time counting by its own size."""
    share = np.column_stack([looks, checks]) / times[:, None]
    best: tuple[float, Any] = (np.inf, None)
    for used in ([0, 1], [0], [1]):
        found = np.zeros(2)
        found[used] = np.linalg.lstsq(share[:, used], np.ones(times.size), rcond=None)[0]
        off = float(((share @ found - 1.0) ** 2).sum())
        if found.min() >= 0.0 and off < best[0]:
            best = (off, found)
    return float(best[1][0]), float(best[1][1])


def main(kinds: list[str]) -> None:
    """Measure and print."""
    stream = Stream(DATA, SEED)
    source = subscriptions.Source.of(stream.take(200_000), STOP_WORDS.split())
    live, published = stream.take(LIVE), stream.take(PUBLISHED)
    sample = Sample(stream.space, live)
    nothing = {}
    for window in (Window(count=LIVE), None):
        cpu_ns(None, stream.space, window, live.slice(0, BATCH), published)
        nothing[window] = cpu_ns(None, stream.space, window, live, published)
        print(f"{stream.source}: a message in an empty broker, {window}: {nothing[window]:,.0f} ns", flush=True)
    for kind, window in product(kinds, nothing):
        if window is None and kind not in WITHOUT_WINDOW:
            continue
        given = draw(kind, source, stream.space)
        looks, checks = expected(given, sample)
        cpu_ns(given.slice(0, 100), stream.space, window, live.slice(0, BATCH), published)  # compiles
        order = np.argsort(looks / checks, kind="stable")
        groups = [np.sort(part) for part in np.array_split(order, GROUPS)]
        few = [part[::QUARTER] for part in groups]
        own = [[given.take(pa.array(part)) for part in parts] for parts in (groups, few)]
        whole, some = (
            np.array([cpu_ns(part, stream.space, window, live, published) for part in parts]) for parts in own
        )
        times = np.maximum(whole - some, 1.0)
        sums = np.array([[at[part].sum() - at[rest].sum() for at in (looks, checks)]
                         for part, rest in zip(groups, few, strict=True)])  # fmt: skip
        look, check = explain(sums[:, 0], sums[:, 1], times)
        off = sums @ [look, check] / times
        print(f"{kind}, {window}: look {look:.1f} ns, check {check:.1f} ns; groups took {np.round(times)} ns, expected "
              f"{np.round(off, 2)} of it", flush=True)  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:] or list(COST_KINDS))
