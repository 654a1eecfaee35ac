"""What it costs that every shard picks its own subscriptions: `python -m bench.spark_routing`, without Spark.

Subscribe events become blocks and come to shards in two ways: each event to its own shard alone, by the bytes of its
id; or all events to all shards, as frames with a column `shard` need it, since an id may have been assigned elsewhere.
It tells the CPU seconds of the tasks that read, and of one shard: to read its blocks and pick its own, and to register
these. Every line is recorded in `bench/results/spark_routing.jsonl`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql.types import LongType

from bench.record import append, surroundings
from bench.spark_bars import Data
from nearcast import Window
from nearcast.spark.encode import EVERYBODY, encode_controls, gathered
from nearcast.spark.shards.blocks import from_bytes, to_bytes
from nearcast.spark.shards.shard import Shard, drained
from nearcast.spark.spec import Spec, spec_of

INDEX = 1  # the shard that is looked at


def measured(given: pa.Table, spec: Spec) -> dict[str, float]:
    """CPU seconds of the tasks that read and of one shard, and the bytes that this shard reads."""
    began = time.process_time()
    encoded = [encode_controls(table, spec) for table in gathered(given.to_batches(max_chunksize=65_536))]
    blocks = [to_bytes(table) for one in encoded for shard, table in one.blocks if shard in (EVERYBODY, INDEX)]
    read = time.process_time()
    shard = Shard(INDEX, spec)
    controls = [from_bytes(block) for block in blocks]
    if spec.placed:
        shard.places.concern(controls)
    own = shard.own(controls)
    picked = time.process_time()
    drained(shard.apply(None, own))
    done = time.process_time()
    return {
        "encode_s": read - began, "pick_s": picked - read, "register_s": done - picked,
        "megabytes": sum(map(len, blocks)) / 1e6, "own": shard.broker.stats()["subscriptions"]["all"],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    parser.add_argument("--shards", type=int, default=4)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = Data(Path(folder), 1_000, args.subscriptions)
    given = data.asked
    for name in ("ts", "position", "tie"):
        given = given.append_column(name, pa.nulls(args.subscriptions, pa.int64()))
    one = spec_of(data.space, Window(count=100_000), None, args.shards, None, LongType(), LongType())
    warm = given.slice(0, 1_000)
    for placed in (False, True, False, True):
        spec = replace(one, placed=placed)
        measured(warm, spec)
        found = {"way": "to all shards" if placed else "by its id", "sizes": vars(args), **measured(given, spec)}
        append({"figure": "spark_routing", "source": data.source, **found, **surroundings()})
        print(found, flush=True)


if __name__ == "__main__":
    main()
