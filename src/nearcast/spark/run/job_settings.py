"""Options of `nearcast run` become settings that its checkpoint holds to."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

import nearcast as nc
from nearcast.errors import InvalidInput
from nearcast.spark.run.files import Input, batch_frames, find_files
from nearcast.spark.shards.blocks import from_bytes, to_bytes
from nearcast.spark.shards.store import Store
from nearcast.spark.weights import fit_weights

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from nearcast.spark.run.job import Options

VERSION = 6  # of the checkpoint
_SPARE_PARTITIONS = 4  # a checkpoint keeps its partitions, and so how many shards there can ever be


class Settings(NamedTuple):
    """What stays while a checkpoint lasts, and the number of shards."""

    n_shards: int
    n_partitions: int

    def weights(self, spark: SparkSession, options: Options, place: Path) -> nc.Weights | None:
        """The weights over the corpus, counted at the first start."""
        corpus, analyzer = options.corpus, options.analyzer
        if not corpus:
            return None
        store = Store(place.parent.as_uri())
        found = store.get(place.name)
        if found is None:
            files = find_files([Input(given.path, "messages", given.format) for given in corpus])
            fitted = fit_weights(batch_frames(spark, files).messages, "text", analyzer=analyzer)
            if not fitted.n_texts:
                paths = ", ".join(given.path for given in corpus)
                raise InvalidInput("corpus", paths, "must hold messages with texts, in the forms that --messages takes")
            words, counts = fitted.counts()
            table = pa.table({"word": words, "n": counts}).replace_schema_metadata({"n_texts": str(fitted.n_texts)})
            store.put(place.name, to_bytes(table))
            return fitted
        try:
            table = from_bytes(found)
            n_texts = int(table.schema.metadata[b"n_texts"])
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError):
            rule = f"has a {place.name} that is damaged: put it back from a copy, or name another --out"
            raise InvalidInput("checkpoint", str(place.parent), rule) from None
        words, counts = table.column("word").combine_chunks(), table.column("n").to_numpy()
        return nc.Weights.of_counts(n_texts, words, counts, analyzer)


def default_shards() -> int:
    """One shard for every two cores: the other half is for Spark itself."""
    return max(1, len(os.sched_getaffinity(0)) // 2)


@contextlib.contextmanager
def settle(checkpoint: Path, options: Options) -> Iterator[Settings]:
    """The settings of the run: those of its checkpoint, which the options must agree with, or new ones.

    Keeps every other run away from the checkpoint; a process that dies lets go by itself.
    """
    checkpoint.mkdir(parents=True, exist_ok=True)
    with open(checkpoint / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            rule = "is in use by another run; wait for it to end or name another one"
            raise InvalidInput("checkpoint", str(checkpoint), rule) from None
        yield _settled(checkpoint, options)


def _settled(checkpoint: Path, options: Options) -> Settings:
    store = Store(checkpoint.as_uri())
    found = store.get("run.json")
    asked: dict[str, Any] = {
        "out": str(options.out.absolute()),
        "space": str(options.space),
        "window": str(options.window),
        "analyzer": str(options.analyzer),
        "updates_format": options.updates_format,
        "corpus": [os.path.abspath(given.path) for given in options.corpus],
    }
    if found is None:
        if _has_output(options.out):
            rule = "must be an empty folder, or have the checkpoint of the run that wrote it"
            raise InvalidInput("out", str(options.out), rule)
        n_shards = options.shards or default_shards()
        known: dict[str, Any] = {"version": VERSION, "asked": asked, "shards": n_shards}
        known["partitions"] = max(n_shards, _SPARE_PARTITIONS) if n_shards > 1 else 1
    else:
        known = _read(checkpoint, found)
        for name, value in known["asked"].items():
            if asked[name] != value:
                raise InvalidInput(name, asked[name], f"must stay {value} for this checkpoint ({checkpoint})")
        known["shards"] = options.shards or known["shards"]
    store.put("run.json", json.dumps(known).encode())
    return Settings(known["shards"], known["partitions"])


def record_partitions(checkpoint: Path, partitions: int) -> None:
    """Note that the checkpoint has other partitions than it was begun with."""
    store = Store(checkpoint.as_uri())
    known = _read(checkpoint, store.need("run.json"))
    store.put("run.json", json.dumps({**known, "partitions": partitions}).encode())


def _read(checkpoint: Path, found: pa.Buffer) -> dict[str, Any]:
    try:
        known: dict[str, Any] = json.loads(found.to_pybytes())
        version = known["version"]
    except (ValueError, KeyError, TypeError):
        rule = "has a run.json that is damaged: put it back from a copy, or name another --out"
        raise InvalidInput("checkpoint", str(checkpoint), rule) from None
    if version != VERSION:
        rule = f"was made by another version of Nearcast (format {version}, this one has {VERSION}): name another --out"
        raise InvalidInput("checkpoint", str(checkpoint), rule)
    return known


def _has_output(out: Path) -> bool:
    return any((out / name).is_dir() and any((out / name).iterdir()) for name in ("updates", "rejects"))
