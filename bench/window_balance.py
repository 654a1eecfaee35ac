"""How evenly updates are spread over shards when messages expire: `python -m bench.window_balance`.

Subscriptions that keep results are split in three ways: by id, by DkM-SKS as if the window held as many messages as the
sample, and by DkM-SKS with the window's own size. One broker then counts the updates of each subscription. Updates are
what a shard's work grows with once the index has done its part, and do not depend on the machine. How far apart shards
are by chance alone, when subscriptions are dealt out blindly again and again, is told beside. Every line is recorded in
`bench/results/window_balance.jsonl`.
"""

from __future__ import annotations

import argparse

import numpy as np
import pyarrow as pa

from bench.cases.messages import Stream, batches
from bench.cases.sharded import spread
from bench.cases.within import STOP_WORDS
from bench.figure import SEED
from bench.record import append, surroundings
from nearcast import Broker, Window
from nearcast.partition.partition import SplitSettings, fit
from nearcast.workload import subscriptions

KINDS = ("topk", "nearest_all", "nearest_any")
STEP = 1_000
DEALS = 400


def updates_of(given: pa.Table, stream: Stream, live: int, n: int) -> np.ndarray:
    """How many updates each subscription gets of `n` messages, when the window is full."""
    broker = Broker(stream.space, Window(count=live))
    broker.subscribe_many(given)
    for batch in batches(stream.take(live), STEP):
        broker.publish(batch)
    told = [
        broker.publish(batch).to_arrow().column("subscription").to_numpy() for batch in batches(stream.take(n), STEP)
    ]
    order = np.argsort(given.column("id").to_numpy(), kind="stable")
    found = order[np.searchsorted(given.column("id").to_numpy()[order], np.concatenate(told))]
    return np.bincount(found, minlength=given.num_rows)


def by_chance(updates: np.ndarray, shards: int) -> tuple[float, float]:
    """Between which spreads nine of ten blind deals of equal numbers of subscriptions are."""
    rng = np.random.default_rng(SEED)
    dealt = np.arange(updates.size) % shards
    found = [spread(np.bincount(rng.permutation(dealt), updates, shards)) for _ in range(DEALS)]
    return float(np.quantile(found, 0.05)), float(np.quantile(found, 0.95))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("subscriptions", 100_000), ("sample", 100_000), ("live", 10_000), ("published", 20_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--shards", type=int, default=20)
    parser.add_argument("--messages", default="poi_simplegeo_us")
    args = parser.parse_args()
    for kind in KINDS:
        stream = Stream(args.messages, SEED)
        source = subscriptions.Source.of(stream.take(2 * args.subscriptions), STOP_WORDS.split())
        shares = {kind: 1.0}
        drawn = subscriptions.mixed(source, args.subscriptions, SEED, shares=shares, bounds=stream.space.bounds)
        given, sample = pa.concat_tables(drawn), stream.take(args.sample)
        updates = updates_of(given, stream, args.live, args.published)
        low, high = by_chance(updates, args.shards)
        print(f"{stream.source}, {kind}: by chance a spread of {low:.3f} to {high:.3f}", flush=True)
        settings = SplitSettings(window=True)
        for name, method, live in (("by id", "hash", None), ("DkM-SKS", "dkm", None), ("and live", "dkm", args.live)):
            partition, held = fit(method, given, sample, args.shards, stream.space, settings=settings, live=live)
            loads = np.bincount(held, updates, args.shards)
            alike = np.corrcoef(partition.costs(given), updates)[0, 1] if method != "hash" else float("nan")
            found = {"kind": kind, "way": name, "updates": int(updates.sum()), "spread": float(spread(loads))}
            found |= {"chance": [low, high]}
            found |= {"correlation": None if method == "hash" else float(alike), "source": stream.source}
            append({"figure": "window_balance", "sizes": vars(args), **found, **surroundings()})
            print(f"{stream.source}, {kind}, {name}: {updates.sum():,} updates, spread {spread(loads):.3f}, "
                  f"costs and updates correlate by {alike:.3f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
