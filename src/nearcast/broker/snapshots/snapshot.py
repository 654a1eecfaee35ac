"""A broker's state as one file: a manifest in JSON, then every array as it lies in memory.

The file is written beside its final name and renamed, so that it is there whole or not at all. Reading maps it
copy-on-write: arrays are not copied, and the file never changes.

Nothing of a damaged file is used. The manifest has a checksum and itself holds one for every array; between arrays
there must be zeros, and after the last one nothing. CRC-32 finds all damage that is confined to four bytes, and misses
one in four thousand million of any other. It is Python's own, and as fast as the map is read.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import stat
import zlib
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, State, record
from nearcast.errors import SnapshotError, shown

FORMAT = 16
OLDEST = 13  # the first format that `older` takes up
_MAGIC = b"nearcast snapshot\n"
_ALIGN = 64  # bytes: every array starts on a cache line
_LINE = 64  # bytes: the two lines before the manifest are shorter
_DEEPEST = 16  # dictionaries in one another
_MOST_AXES = 2  # of an array
_NUMBERS = frozenset(("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8"))


def write(path: str | os.PathLike[str], state: State) -> None:
    """Write the state, nested dictionaries of arrays and plain values, to one file."""
    arrays: list[Array] = []
    tree = json.dumps({"format": FORMAT, "state": _describe(state, arrays)}).encode()
    header = _MAGIC + _second_line(len(tree), zlib.crc32(tree)) + tree
    final = Path(path)
    beside = final.with_name(final.name + f".{os.getpid()}.tmp")
    try:
        with open(beside, "wb") as file:
            file.write(header)
            for array in arrays:
                file.write(bytes(-file.tell() % _ALIGN))
                file.write(array.data)
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


class Stored(NamedTuple):
    """What a file holds."""

    format: int
    state: State


def read(path: str | os.PathLike[str]) -> State:
    """The state that `write` was given; its arrays are writable and private to the caller.

    Raises
    ------
    SnapshotError
        If the file is not a snapshot, is damaged, or has another format version.
    """
    return read_stored(path, FORMAT).state


def read_stored(path: str | os.PathLike[str], oldest: int = OLDEST) -> Stored:
    """The same of a file of this format or of an older one, as it was then.

    Raises
    ------
    SnapshotError
        If the file is not a snapshot, is damaged, or has a format that is older than `oldest` or newer than this one.
    """
    if os.path.isdir(path):
        raise SnapshotError(f"{path} is not a Nearcast snapshot")
    with open(path, "rb", opener=_open_at_once) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or file.readline(_LINE) != _MAGIC:
            raise SnapshotError(f"{path} is not a Nearcast snapshot")
        try:
            manifest = _manifest(file, status.st_size)
            if type(manifest["format"]) is int and oldest <= manifest["format"] <= FORMAT:
                _require(manifest.keys() == {"format", "state"}, "the manifest holds something else")
                mapped = mmap.mmap(file.fileno(), status.st_size, access=mmap.ACCESS_COPY)
                return Stored(manifest["format"], _Reader(mapped, file.tell()).state(manifest["state"]))
        except (ValueError, RecursionError) as error:
            raise SnapshotError(f"{path} is cut short or damaged") from error
    raise SnapshotError(f"{path} has snapshot format {shown(manifest['format'])}, this version reads {FORMAT}")


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for anybody at the other end of a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def _second_line(length: int, checksum: int) -> bytes:
    return f"{length} {checksum}\n".encode()


def _manifest(file: BinaryIO, size: int) -> dict[str, Any]:
    """What stands before the arrays, if it is what was written; of any format."""
    line = file.readline(_LINE)
    length, checksum = map(int, line.split())
    _require(line == _second_line(length, checksum), "the line before the manifest is not the one that was written")
    _require(0 <= length <= size - file.tell(), "the manifest is cut short")
    tree = file.read(length)
    _require(zlib.crc32(tree) == checksum, "the manifest is not the one that was written")
    manifest = json.loads(tree)
    _require(isinstance(manifest, dict) and type(manifest.get("format")) is int, "the manifest has no format")
    return manifest  # type: ignore[no-any-return]


def _describe(value: Any, arrays: list[Array]) -> Any:
    """What the manifest says of a value; the bytes of arrays are collected in order."""
    if isinstance(value, dict):
        return {"dict": {name: _describe(inner, arrays) for name, inner in value.items()}}
    if isinstance(value, np.ndarray):
        assert 0 < value.ndim <= _MOST_AXES, f"{value.ndim} axes in a snapshot"
        name = _dtype_name(value.dtype)
        content = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        arrays.append(content)
        return {"array": name, "shape": list(value.shape), "checksum": zlib.crc32(content.data)}
    if isinstance(value, np.generic):
        value = value.item()
    assert value is None or isinstance(value, bool | int | float | str), f"{type(value)} in a snapshot"
    return {"value": value}


def _dtype_name(dtype: np.dtype[Any]) -> Any:
    if dtype.names is None:
        assert dtype.str in _NUMBERS, f"{dtype} in a snapshot"
        return dtype.str
    fields, packed = [(name, dtype[name].str) for name in dtype.names], not dtype.isalignedstruct
    assert record(*fields, packed=packed) == dtype, "records must be aligned, or packed"
    assert not packed or dtype.type is np.record, "records must be declared aligned, or kernels compile a second time"
    return {"fields": fields, "packed": packed}


class _Reader:
    """Values of a manifest, arrays taken from the mapped file in the order in which they were written."""

    def __init__(self, mapped: mmap.mmap, start: int) -> None:
        self._mapped = mapped
        self._at = start

    def state(self, described: Any) -> State:
        """The dictionary that the whole manifest describes; the file must end with its last array."""
        state = self._value(described, 0)
        _require(isinstance(state, dict), "the state is no dictionary")
        _require(self._at == len(self._mapped), "something comes after the last array")
        return state  # type: ignore[no-any-return]

    def _value(self, described: Any, depth: int) -> Any:
        _require(isinstance(described, dict) and depth <= _DEEPEST, "the manifest is malformed")
        if described.keys() == {"dict"} and isinstance(described["dict"], dict):
            return {name: self._value(inner, depth + 1) for name, inner in described["dict"].items()}
        if described.keys() == {"array", "shape", "checksum"}:
            return self._array(_dtype(described["array"]), described["shape"], described["checksum"])
        _require(described.keys() == {"value"}, "the manifest is malformed")
        value = described["value"]
        _require(not isinstance(value, dict | list), "the manifest is malformed")
        return value

    def _array(self, dtype: np.dtype[Any], shape: Any, checksum: Any) -> Array:
        most, start = len(self._mapped), self._at + -self._at % _ALIGN
        _require(isinstance(shape, list) and 0 < len(shape) <= _MOST_AXES, "an array has no shape")
        _require(all(type(n) is int and 0 <= n <= most for n in shape), "an array has no shape")
        end = start + math.prod(shape) * dtype.itemsize
        _require(end <= most, "an array is cut short")
        _require(not any(self._mapped[self._at : start]), "there is something between two arrays")
        with memoryview(self._mapped)[start:end] as content:
            _require(type(checksum) is int and zlib.crc32(content) == checksum, "an array is not what was written")
        self._at = end
        if end == start:
            return np.zeros(shape, dtype=dtype)
        return np.frombuffer(self._mapped, dtype, math.prod(shape), start).reshape(shape)


def _dtype(name: Any) -> np.dtype[Any]:
    """The type of an array; only such as `_dtype_name` names."""
    if isinstance(name, str):
        _require(name in _NUMBERS, "an array has an unknown type")
        return np.dtype(name)
    _require(isinstance(name, dict) and name.keys() == {"fields", "packed"}, "an array has an unknown type")
    fields, packed = name["fields"], name["packed"]
    _require(isinstance(fields, list) and isinstance(packed, bool) and len(fields) > 0, "a record is malformed")
    for field in fields:
        _require(isinstance(field, list) and len(field) == 2, "a record is malformed")
        _require(isinstance(field[0], str) and field[0].isidentifier(), "a field has no name")
        _require(isinstance(field[1], str) and field[1] in _NUMBERS, "a field has an unknown type")
    return record(*((field[0], field[1]) for field in fields), packed=packed)
