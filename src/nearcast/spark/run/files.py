"""Files and folders, as `nearcast run` is given them, become frames: of messages, and of subscriptions and events.

JSON lines, GeoJSON, CSV (all also packed with gzip) and Parquet. Executors read, each its own files, so they must be
able to: a file that a task cannot open fails it. Rows that cannot be read go along in the column `refused`.

`batch_frames` is for what is there, in one job. `file_source.stream_frames` takes it in pieces of bounded size, which
end between different `ts`, and if asked to follow goes on with files that are put into the folders.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from nearcast.errors import InvalidInput
from nearcast.spark.run.file_rows import (
    EVENTS,
    MESSAGES,
    SIDES,
    SUBSCRIPTIONS,
    IdTypes,
    SourceFile,
    below,
    columns_of,
    first_ids,
    read_file,
    shown_path,
    system_of,
)

FORMATS = ("jsonl", "geojson", "csv", "parquet")
ROLES = (MESSAGES, SUBSCRIPTIONS, EVENTS)
_MOST_TASKS = 1_000
_EXTENSIONS = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".geojsonl": "jsonl", ".geojson": "geojson", ".csv": "csv",
    ".parquet": "parquet",
}  # fmt: skip


class Input(NamedTuple):
    """A file or folder, or the URI of one, and what its rows are: "messages", "subscriptions" or "events"."""

    path: str
    role: str
    format: str | None = None  # by extension when None


class Frames(NamedTuple):
    """What `answers` takes."""

    messages: DataFrame
    subscriptions: DataFrame


def find_files(inputs: Iterable[Input], without: Iterable[str] = ()) -> list[SourceFile]:
    """All files behind `inputs`: those named, and those in folders, by path; hidden and unfinished ones left out.

    What lies below the folders `without` is not found in a folder: a run must not read what it wrote.

    Raises
    ------
    InvalidInput
        A path that does not exist, is neither file nor folder, has no known format, or is given in two roles.
    """
    found: dict[str, SourceFile] = {}
    own = [os.path.realpath(folder) + os.sep for folder in without]
    for given in inputs:
        for file in _behind(given):
            key = file.path if "://" in file.path else os.path.realpath(file.path)
            if any(key.startswith(folder) for folder in own):
                continue
            known = found.setdefault(key, file)
            if known.role != file.role:
                raise InvalidInput(file.role, file.path, f"must not be given as {known.role} too")
    return list(found.values())


def format_of(name: str) -> str | None:
    """The format that a file's name tells, or None."""
    lower = name.lower()
    if lower.endswith(".gz"):
        inner = _EXTENSIONS.get(os.path.splitext(lower[:-3])[1])
        return None if inner == "parquet" else inner
    return _EXTENSIONS.get(os.path.splitext(lower)[1])


def _behind(given: Input) -> Iterator[SourceFile]:
    if given.role not in ROLES:
        raise InvalidInput("role", given.role, f"must be one of {', '.join(ROLES)}")
    if "://" in given.path:
        yield from _behind_uri(given)
    elif os.path.isdir(given.path):
        for name in sorted(_below(given.path)):
            format_ = given.format or format_of(name)
            if format_ is not None:
                try:
                    yield _local(given, name, format_)
                except FileNotFoundError:  # gone since the folder was listed
                    continue
    else:
        if not os.path.exists(given.path):
            raise InvalidInput(given.role, given.path, "must be a file or folder that exists")
        yield _local(given, given.path, _format(given))


def _format(given: Input) -> str:
    format_ = given.format or format_of(shown_path(given.path))
    if format_ is None:
        rule = f"must end in one of {', '.join(_EXTENSIONS)} (or be named with --format)"
        raise InvalidInput(given.role, shown_path(given.path), rule)
    return format_


def _local(given: Input, path: str, format_: str) -> SourceFile:
    absolute = os.path.abspath(path)
    status = os.stat(absolute)
    if not stat.S_ISREG(status.st_mode):
        rule = "must be a file, not a pipe, socket or device: write its rows to a file, or move it out of the folder"
        raise InvalidInput(given.role, absolute, rule)
    return SourceFile(absolute, given.role, format_, status.st_size, status.st_mtime_ns)


def _behind_uri(given: Input) -> Iterator[SourceFile]:
    try:
        system, inner = system_of(given.path)
        (info,) = system.get_file_info([inner])
        if info.type == fs.FileType.Directory:
            infos = system.get_file_info(fs.FileSelector(inner, recursive=True))
        else:
            infos = [info]
    except (OSError, pa.ArrowException, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise InvalidInput(
            given.role, shown_path(given.path), f"must be a URI that can be listed here ({first})"
        ) from error
    if info.type == fs.FileType.NotFound:
        raise InvalidInput(given.role, shown_path(given.path), "must be a file or folder that exists")
    for one in sorted(infos, key=lambda one: str(one.path)):
        rest = one.path[len(inner.rstrip("/")) :]
        if one.type != fs.FileType.File or not all(map(_is_finished, rest.split("/")[1:])):
            continue
        format_ = _format(given) if one is info else given.format or format_of(one.path)
        if format_ is not None:
            yield SourceFile(
                below(given.path, rest) if rest else given.path, given.role, format_, one.size or 0, one.mtime_ns or 0
            )


def _below(folder: str) -> Iterator[str]:
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if _is_finished(name))
        yield from (os.path.join(where, name) for name in names if _is_finished(name))


def _is_finished(name: str) -> bool:
    return not name.startswith((".", "_")) and not name.endswith((".tmp", ".part", "~"))


def id_types(files: Sequence[SourceFile]) -> IdTypes:
    """The types of ids, by the first rows of the first files that have any; who lists files can look into them."""
    wanted = {side for file in files for side in SIDES if file.role in (side, EVENTS)}
    found: dict[str, str] = {}
    for file in files:
        if wanted <= found.keys():
            break
        if any(file.role in (side, EVENTS) for side in wanted - found.keys()):
            found = first_ids(file) | found
    return IdTypes(**found)


def tasks(spark: SparkSession, groups: list[list[SourceFile]]) -> DataFrame:
    """A frame with a task for each group of files."""
    rows = [(number, json.dumps(group)) for number, group in enumerate(groups)]
    return spark.createDataFrame(rows, "number int, files string").repartitionById(len(groups), F.col("number"))


def grouped(files: list[SourceFile], most: int = _MOST_TASKS) -> list[list[SourceFile]]:
    """Files in groups of much the same size, one each if there are not too many."""
    groups: list[list[SourceFile]] = [[] for _ in range(max(1, min(most, len(files))))]
    sizes = [(0, number) for number in range(len(groups))]
    from heapq import heapreplace

    for file in sorted(files, key=lambda file: -file.size):
        size, number = sizes[0]
        groups[number].append(file)
        heapreplace(sizes, (size + file.size + 1, number))
    return groups


def given_files(batches: Iterator[pa.RecordBatch]) -> Iterator[SourceFile]:
    """The files of a task."""
    for batch in batches:
        for text in batch.column("files").to_pylist():
            yield from (SourceFile(*file) for file in json.loads(text))


def batch_frames(spark: SparkSession, files: list[SourceFile], ids: IdTypes | None = None) -> Frames:
    """The rows of files as batch frames.

    Parameters
    ----------
    files
        From `find_files`.
    ids
        The types of ids; by default those of the first rows.
    """
    known = id_types(files) if ids is None else ids
    return Frames(*(_batch_frame(spark, files, side, known) for side in SIDES))


def _batch_frame(spark: SparkSession, files: list[SourceFile], side: str, ids: IdTypes) -> DataFrame:
    schema = from_arrow_schema(columns_of(side, ids))
    own = [file for file in files if file.role in (side, EVENTS)]
    if not own:
        return spark.createDataFrame([], schema)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        for file in given_files(batches):
            for _, table in read_file(file, (side,), ids):
                yield from table.to_batches()

    return tasks(spark, grouped(own)).mapInArrow(read, schema)
