"""Options become settings that a checkpoint holds to: new ones, those it has, or those of other numbers of shards."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import nearcast as nc
from nearcast.cluster.reshard import reshard
from nearcast.cluster.sources import Input, find_files, read_texts
from nearcast.cluster.store import Store, read_json, write_json
from nearcast.cluster.text_files import TEXT_ERRORS
from nearcast.cluster.turn import Settings, save_weights
from nearcast.errors import InvalidInput
from nearcast.partition.partition import METHODS

if TYPE_CHECKING:
    from nearcast.cluster.pipeline import Options

VERSION = 3  # of the checkpoint


def default_shards() -> int:
    """One shard for every two cores: the other half is for Spark itself."""
    return max(1, len(os.sched_getaffinity(0)) // 2)


def settle(store: Store, options: Options) -> Settings:
    """The settings of the run: those of its checkpoint, which the options must agree with, or new ones."""
    known = read_json(store.run)
    asked: dict[str, Any] = {
        "out": str(options.out.absolute()),
        "space": {
            "bounds": list(options.space.bounds),
            "metric": options.space.metric,
            "max_distance": options.space.max_distance,
        },
        "window": _window_json(options.window),
        "updates_format": options.updates_format,
        "corpus": [os.path.abspath(given.path) for given in options.corpus],
    }
    if options.partition not in METHODS:
        raise InvalidInput("partition", options.partition, f"must be one of {', '.join(METHODS)}")
    if known is None:
        if _has_output(options.out):
            rule = "must be an empty folder, or have the checkpoint of the run that wrote it"
            raise InvalidInput("out", str(options.out), rule)
        if options.corpus:
            save_weights(store.weights, nc.Weights.fit(_readable_texts(options.corpus)))
        agreed = {key: value for key, value in asked.items() if key != "corpus"}
        settings = Settings(
            id=uuid.uuid4().hex,
            era=0,
            n_shards=options.shards or default_shards(),
            has_weights=bool(options.corpus),
            snapshot_every=options.snapshot_every,
            **agreed,
        )
        write_json(store.run, {"version": VERSION, "id": settings.id, "asked": asked, "settings": settings._asdict()})
        return settings
    if known["version"] != VERSION:
        rule = f"was made by another version of Nearcast (format {known['version']}, this one has {VERSION})"
        raise InvalidInput("checkpoint", str(store.checkpoint), rule)
    for name, value in known["asked"].items():
        if asked[name] != value:
            raise InvalidInput(name, asked[name], f"must stay {value} for this checkpoint ({store.checkpoint})")
    settings = Settings(**known["settings"])
    if options.shards not in (None, settings.n_shards):
        settings = reshard(store.checkpoint, settings, int(options.shards or 0))
        write_json(store.run, {**known, "settings": settings._asdict()})
    return settings


def _window_json(window: nc.Window | None) -> dict[str, Any] | None:
    if window is None:
        return None
    return {"count": window.count, "age": window.age, "max_ahead": window.max_ahead}


def _readable_texts(corpus: tuple[Input, ...]) -> pa.ChunkedArray:
    try:
        return _texts(corpus)
    except (*TEXT_ERRORS, pa.ArrowException) as error:
        paths = ", ".join(given.path for given in corpus)
        raise InvalidInput("corpus", paths, f"must be readable to its end ({error})") from error


def _texts(corpus: tuple[Input, ...]) -> pa.ChunkedArray:
    """The texts of the corpus files."""
    texts = pa.chunked_array([piece for file in find_files(corpus) for piece in read_texts(file)], pa.string())
    if len(texts) == 0:
        paths = ", ".join(given.path for given in corpus)
        raise InvalidInput("corpus", paths, "must hold texts, in a field or column named text")
    return texts


def _has_output(out: Path) -> bool:
    return any((out / name).is_dir() and any((out / name).iterdir()) for name in ("updates", "rejects"))
