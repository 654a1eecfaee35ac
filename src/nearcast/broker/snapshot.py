"""A broker's state as one file: a manifest in JSON, then every array as it lies in memory.

The file is written beside its final name and renamed, so that it is there whole or not at all. Reading maps it
copy-on-write: nothing is read before it is used, and the file never changes.
"""

from __future__ import annotations

import json
import mmap
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from nearcast.columns.arena import Array, State, record
from nearcast.errors import SnapshotError

FORMAT = 9
_MAGIC = b"nearcast snapshot\n"
_ALIGN = 64  # bytes: every array starts on a cache line


def write(path: str | os.PathLike[str], state: State) -> None:
    """Write the state, nested dictionaries of arrays and plain values, to one file."""
    arrays: list[Array] = []
    tree = json.dumps({"format": FORMAT, "state": _describe(state, arrays)}).encode()
    header = _MAGIC + f"{len(tree)} {zlib.crc32(tree)}\n".encode() + tree
    final = Path(path)
    beside = final.with_name(final.name + f".{os.getpid()}.tmp")
    try:
        with open(beside, "wb") as file:
            file.write(header)
            for array in arrays:
                file.write(bytes(-file.tell() % _ALIGN))
                file.write(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, final)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    folder = os.open(final.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read(path: str | os.PathLike[str]) -> State:
    """The state that `write` was given; its arrays are writable and private to the caller."""
    with open(path, "rb") as file:
        if file.readline() != _MAGIC:
            raise SnapshotError(f"{path} is not a Nearcast snapshot")
        try:
            length, checksum = map(int, file.readline().split())
            tree = file.read(length)
            if zlib.crc32(tree) != checksum:
                raise ValueError("the manifest is not the one that was written")
            manifest = json.loads(tree)
        except ValueError as error:
            raise SnapshotError(f"{path} is cut short or damaged") from error
        if manifest["format"] != FORMAT:
            raise SnapshotError(f"{path} has snapshot format {manifest['format']}, this version reads {FORMAT}")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        state = _Reader(mapped, file.tell(), str(path)).value(manifest["state"])
    return state  # type: ignore[no-any-return]


def _describe(value: Any, arrays: list[Array]) -> Any:
    """What the manifest says of a value; arrays are collected in order."""
    if isinstance(value, dict):
        return {"dict": {name: _describe(inner, arrays) for name, inner in value.items()}}
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": _dtype_name(value.dtype), "shape": list(value.shape)}
    if isinstance(value, np.generic):
        value = value.item()
    assert value is None or isinstance(value, bool | int | float | str), f"{type(value)} in a snapshot"
    return {"value": value}


def _dtype_name(dtype: np.dtype[Any]) -> Any:
    if dtype.names is None:
        return dtype.str
    fields, packed = [(name, dtype[name].str) for name in dtype.names], not dtype.isalignedstruct
    assert record(*fields, packed=packed) == dtype, "records must be aligned, or packed"
    assert not packed or dtype.type is np.record, "records must be declared aligned, or kernels compile a second time"
    return {"fields": fields, "packed": packed}


class _Reader:
    """Values of a manifest, arrays taken from the mapped file in the order in which they were written."""

    def __init__(self, mapped: mmap.mmap, start: int, path: str) -> None:
        self._mapped = mapped
        self._at = start
        self._path = path

    def value(self, described: dict[str, Any]) -> Any:
        if "dict" in described:
            return {name: self.value(inner) for name, inner in described["dict"].items()}
        return self._array(described) if "array" in described else described["value"]

    def _array(self, described: dict[str, Any]) -> Array:
        name, shape = described["array"], described["shape"]
        dtype = np.dtype(name) if isinstance(name, str) else record(*map(tuple, name["fields"]), packed=name["packed"])
        count = int(np.prod(shape))
        self._at += -self._at % _ALIGN
        if self._at + count * dtype.itemsize > len(self._mapped):
            raise SnapshotError(f"{self._path} is cut short or damaged")
        if count == 0:
            return np.zeros(shape, dtype=dtype)
        array = np.frombuffer(self._mapped, dtype=dtype, count=count, offset=self._at).reshape(shape)
        self._at += count * dtype.itemsize
        return array
