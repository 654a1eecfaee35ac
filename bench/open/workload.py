"""A kind of question and a size become a task: messages that were there before, subscriptions, and messages to come."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearcast import InvalidInput
from nearcast.text.words import tokenise
from nearcast.workload import datasets, s1m, subscriptions

KINDS = ("within", "similar", "topk", "nearest_all", "nearest_any")
SIZES = {"10k": 10_000, "100k": 100_000, "1m": 1_000_000, "5m": 5_000_000, "20m": 20_000_000}
COLUMNS = {  # what each kind has beside id and keywords
    "within": ("min_lon", "min_lat", "max_lon", "max_lat"),
    "similar": ("lon", "lat", "delta", "tau"),
    "topk": ("lon", "lat", "k", "alpha"),
    "nearest_all": ("lon", "lat", "k"),
    "nearest_any": ("lon", "lat", "k"),
}
VERSION = 1

_SOURCE = 300_000  # messages that subscriptions are drawn from
_REACH = 0.05 / 2**0.5  # max_distance as a share of the diagonal: similarity of places is 0 from there on


@dataclass(frozen=True)
class Task:
    """What is asked, how much of it, and in which space."""

    kind: str
    data: str  # s1m, or a data set that is kept beside the project
    subscriptions: int
    before: int  # messages that are live when subscriptions register; the window holds this many
    published: int  # messages that come then, whose updates are the answer
    seed: int
    bounds: tuple[float, float, float, float]
    max_distance: float
    version: int = VERSION

    @property
    def keeps(self) -> bool:
        """Results are lists of the k best, and have `-` as well as `+`."""
        return self.kind not in ("within", "similar")


@dataclass(frozen=True)
class Workload:
    """A task with its rows; messages are numbered from 1 on, the first `before` of them are live at the start."""

    task: Task
    subscriptions: pa.Table
    messages: pa.Table


def make(kind: str, n: int, before: int, published: int, data: str = "s1m", seed: int = s1m.SEED) -> Workload:
    """The workload of a task, the same on every machine."""
    if kind not in KINDS:
        raise InvalidInput("kind", kind, f"must be one of {', '.join(KINDS)}")
    n_messages = before + published
    drawn = _messages(data, max(n_messages, _SOURCE), seed)
    messages = drawn.slice(0, n_messages)
    lon, lat = drawn["lon"].to_numpy(), drawn["lat"].to_numpy()
    found = s1m.BOUNDS if data == "s1m" else (lon.min(), lat.min(), lon.max(), lat.max())
    bounds = tuple(float(edge) for edge in found)
    asked = pa.concat_tables(list(_subscriptions(kind, data, drawn.slice(0, _SOURCE), n, seed)))
    reach = _REACH * float(np.hypot(bounds[2] - bounds[0], bounds[3] - bounds[1]))
    task = Task(kind, data, n, before, published, seed, bounds, reach)  # type: ignore[arg-type]
    return Workload(task, asked.select(["id", "keywords", *COLUMNS[kind]]), messages)


def _messages(data: str, n: int, seed: int) -> pa.Table:
    """id, lon, lat, keywords: distinct words."""
    if data == "s1m":
        table = pa.concat_tables(list(s1m.messages(n, seed, form="keywords")))
        return table.select(["id", "lon", "lat", "keywords"])
    stored = datasets.read(data, columns=["lon", "lat", "text"])
    order = np.random.default_rng(seed).permutation(stored.num_rows)[:n]
    if order.size < n:
        raise InvalidInput("messages", n, f"must be at most {stored.num_rows}, the messages of {data}")
    stored = stored.take(pa.array(order)).combine_chunks()
    return pa.table(
        {
            "id": pa.array(np.arange(1, n + 1)),
            "lon": stored["lon"],
            "lat": stored["lat"],
            "keywords": _distinct_words(stored["text"]),
        }
    )


def _distinct_words(texts: pa.ChunkedArray) -> pa.Array:
    found = tokenise(texts)
    spelled = pa.LargeStringArray.from_buffers(
        found.word_start.size - 1, pa.py_buffer(found.word_start), pa.py_buffer(found.data)
    )
    coded = pc.dictionary_encode(spelled)
    n_rows = found.row_start.size - 1
    rows = np.repeat(np.arange(n_rows), np.diff(found.row_start))
    pairs = np.unique(rows * max(1, len(coded.dictionary)) + coded.indices.to_numpy())
    rows, numbers = pairs // max(1, len(coded.dictionary)), pairs % max(1, len(coded.dictionary))
    starts = np.searchsorted(rows, np.arange(n_rows + 1))
    words = coded.dictionary.cast(pa.string()).take(pa.array(numbers))
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), words)


def _subscriptions(kind: str, data: str, messages: pa.Table, n: int, seed: int) -> Iterator[pa.Table]:
    if kind == "within" and data == "s1m":
        return s1m.subscriptions(n, seed)
    source = subscriptions.Source.of(messages)
    if kind == "within":
        return subscriptions.within(source, n, seed)
    if kind == "similar":
        return subscriptions.similar(source, n, seed, measure="overlap")
    if kind == "topk":
        return subscriptions.topk(source, n, seed)
    return subscriptions.nearest(source, n, seed, match=kind.removeprefix("nearest_"))


def write(workload: Workload, folder: Path, form: str = "parquet") -> None:
    """The files of a task: `form` is "parquet" or "jsonl"."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "task.json").write_text(json.dumps(asdict(workload.task), indent=1) + "\n")
    for name, table in (("subscriptions", workload.subscriptions), ("messages", workload.messages)):
        write_rows(table, folder / f"{name}.{form}")


def read(folder: Path) -> Workload:
    """A task from its files, in whichever form they are."""
    given: dict[str, Any] = json.loads((folder / "task.json").read_text())
    if given["version"] != VERSION:
        raise InvalidInput("version", given["version"], f"must be {VERSION}")
    task = Task(**{**given, "bounds": tuple(given["bounds"])})
    tables = []
    for name in ("subscriptions", "messages"):
        path = next((found for form in ("parquet", "jsonl") if (found := folder / f"{name}.{form}").exists()), None)
        if path is None:
            raise InvalidInput("folder", str(folder), f"must hold {name}.parquet or {name}.jsonl")
        tables.append(read_rows(path))
    return Workload(task, *tables)


def write_rows(table: pa.Table, path: Path) -> None:
    """A table as Parquet, or as one JSON object in a line."""
    if path.suffix == ".parquet":
        pq.write_table(table, path)
        return
    with path.open("w", encoding="utf-8") as file:
        for batch in table.to_batches(max_chunksize=10_000):
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in batch.to_pylist())


def read_rows(path: Path) -> pa.Table:
    """The same, read."""
    if path.suffix == ".parquet":
        return pq.read_table(path)
    with path.open(encoding="utf-8") as file:
        return pa.Table.from_pylist([json.loads(line) for line in file if line.strip()])
