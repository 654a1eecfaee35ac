"""How evenly updates are spread over shards when messages expire: `python -m bench.window_balance`.

Subscriptions that keep results are split in three ways: by id, by DkM-SKS as if the window held as many messages as the
sample, and by DkM-SKS with the window's own size. One broker then counts the updates of each subscription. Updates are
what a shard's work grows with once the index has done its part, and do not depend on the machine. How far apart shards
are by chance alone, when subscriptions are dealt out blindly again and again, is told beside. One draw of messages and
subscriptions says little: `--draws` takes several. Every line is recorded in `bench/results/window_balance.jsonl`.
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
WAYS = (
    ("by id", "hash", lambda args: None),
    ("DkM-SKS", "dkm", lambda args: None),
    ("and live", "dkm", lambda args: args.live),
)
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


def compared(kind: str, seed: int, args: argparse.Namespace) -> dict[str, float]:
    """The spread of each way, in one draw of messages and subscriptions."""
    stream = Stream(args.messages, seed)
    source = subscriptions.Source.of(stream.take(2 * args.subscriptions), STOP_WORDS.split())
    drawn = subscriptions.mixed(source, args.subscriptions, seed, shares={kind: 1.0}, bounds=stream.space.bounds)
    given, sample = pa.concat_tables(drawn), stream.take(args.sample)
    updates = updates_of(given, stream, args.live, args.published)
    chance = by_chance(updates, args.shards)
    settings = SplitSettings(window=True)
    spreads = {}
    for name, method, live in WAYS:
        partition, held = fit(method, given, sample, args.shards, stream.space, settings=settings, live=live(args))
        spreads[name] = float(spread(np.bincount(held, updates, args.shards)))
        alike = None if method == "hash" else float(np.corrcoef(partition.costs(given), updates)[0, 1])
        found = {"kind": kind, "way": name, "seed": seed, "updates": int(updates.sum()), "spread": spreads[name]}
        found |= {"chance": chance, "correlation": alike, "source": stream.source}
        append({"figure": "window_balance", "sizes": vars(args), **found, **surroundings()})
        shown = "" if alike is None else f", costs and updates correlate by {alike:.3f}"
        print(f"{kind}, seed {seed}, {name}: {updates.sum():,} updates, spread {spreads[name]:.3f} "
              f"(by chance {chance[0]:.3f} to {chance[1]:.3f}){shown}", flush=True)  # fmt: skip
    return spreads


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("subscriptions", 100_000), ("sample", 100_000), ("live", 10_000), ("published", 20_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--shards", type=int, default=20)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--messages", default="poi_simplegeo_us")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    args = parser.parse_args()
    for kind in args.kinds:
        draws = [compared(kind, SEED + draw, args) for draw in range(args.draws)]
        for name, *_ in WAYS:
            spreads = np.array([draw[name] for draw in draws])
            better = np.count_nonzero(spreads < [draw["by id"] for draw in draws])
            print(f"{kind}, {name}: mean spread {spreads.mean():.3f}, below that by id in {better} of {args.draws}",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
