"""The store: blocks and snapshots under names, at a URI of any file system that PyArrow or fsspec knows.

PUT and GET suffice: nothing is renamed, appended to or locked. A name is given to its content once, but for heads,
whose every version says the same. Only `nearcast.spark.shards.sweep` lists and deletes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import posixpath
import shutil
import tempfile
import time
import uuid
import zlib
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

import nearcast as nc
from nearcast.columns.arena import State
from nearcast.errors import InvalidInput, SetupError, SnapshotError, shown

FORMAT = 1
_COPIED = 1 << 22  # bytes at a time
_KEPT_S = 600.0  # for which a host keeps blocks that it has fetched
_MARK = "nearcast-store.json"


@lru_cache(maxsize=16)
def _open(uri: str, _pid: int) -> tuple[fs.FileSystem, str]:
    """The file system of a URI, and the path in it; one for each process, since connections do not survive a fork."""
    try:
        return fs.FileSystem.from_uri(uri)  # type: ignore[no-any-return]
    except (pa.ArrowException, OSError, ValueError) as error:
        first = error
    try:
        import fsspec

        system, path = fsspec.core.url_to_fs(uri)
    except ImportError:
        raise InvalidInput("store", uri, f"must be a URI that PyArrow can open ({shown(first)})") from first
    except Exception as error:
        raise InvalidInput("store", uri, f"must be a URI that PyArrow or fsspec can open ({shown(error)})") from error
    return fs.PyFileSystem(fs.FSSpecHandler(system)), path


class Store:
    """Bytes under names.

    Parameters
    ----------
    uri
        ``file:///shared/folder``, ``s3://bucket/folder``, ``gs:``, ``abfs:``, ``hdfs:`` or any that fsspec reads.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._fs, self._root = _open(uri, os.getpid())
        self.is_local = isinstance(self._fs, fs.LocalFileSystem)

    def check(self) -> None:
        """Write a mark and read it, or read the one that is there.

        Raises
        ------
        InvalidInput
            The store cannot be written or read.
        SetupError
            It is a store of another version.
        """
        try:
            found = self.get(_MARK)
            if found is None:
                self.put(_MARK, json.dumps({"format": FORMAT}).encode())
                found = self.get(_MARK)
        except Exception as error:
            raise InvalidInput(
                "store", self.uri, f"must be a place that can be written and read ({shown(error)})"
            ) from error
        try:
            known = json.loads(b"" if found is None else found.to_pybytes())["format"]
        except (ValueError, KeyError, TypeError):
            raise SetupError(f"{self._path(_MARK)} is damaged. Delete it if this is a store of Nearcast.") from None
        if known != FORMAT:
            raise SetupError(
                f"the store {self.uri} has format {known}, and this version reads {FORMAT}. Finish with the version "
                "that wrote it, or name another store and another checkpoint."
            )

    def put(self, name: str, data: bytes | pa.Buffer) -> None:
        """Write a file; on a local disk it is there whole or not at all."""
        path = self._path(name)
        if not self.is_local:
            with self._fs.open_output_stream(path) as stream:
                stream.write(data)
            return
        beside = Path(f"{path}.{uuid.uuid4().hex[:8]}.tmp")
        beside.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(data)
        beside.replace(path)

    def get(self, name: str) -> pa.Buffer | None:
        """The content of a file, None if there is none."""
        try:
            if self.is_local:
                with pa.memory_map(self._path(name)) as file:
                    return file.read_buffer()
            with self._fs.open_input_file(self._path(name)) as file:
                return file.read_buffer()
        except FileNotFoundError:
            return None

    def need(self, name: str) -> pa.Buffer:
        """The content of a file that must be there.

        Raises
        ------
        SetupError
            It is not, most likely because hosts do not see the same store.
        """
        found = self.get(name)
        if found is None:
            raise SetupError(
                f"{self._path(name)} is not there. Every host must see the same store, and only ns.sweep may delete "
                "from it."
            )
        return found

    def need_checked(self, name: str, shared: bool = False) -> pa.Buffer:
        """The same, of a file whose name ends with the checksum of its bytes, after a dot; older names have none.

        `shared`: fetch it once for all processes of this host.

        Raises
        ------
        SetupError
            It is not there, or does not hold what was written.
        """
        found = self.need_shared(name) if shared else self.need(name)
        checksum = name.rpartition(".")[2] if "." in name else None
        if checksum is not None and f"{zlib.crc32(found):08x}" != checksum:
            raise self.damaged(name, "it is cut short or damaged")
        return found

    def need_shared(self, name: str) -> pa.Buffer:
        """The content of a file that must be there, fetched once by this host; its processes map one copy of it."""
        if self.is_local:
            return self.need(name)
        folder = Path(tempfile.gettempdir()) / f"nearcast-{os.getuid()}" / sha256(self.uri.encode()).hexdigest()[:16]
        place = folder / name.replace("/", "_")
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not place.exists():
                found = self.need(name)
                beside = place.with_suffix(".tmp")
                beside.write_bytes(found)
                beside.replace(place)
                _forget_old(folder)
        with pa.memory_map(str(place)) as file:
            return file.read_buffer()

    def put_snapshot(self, name: str, broker: nc.Broker) -> None:
        """Write a broker."""
        if self.is_local:
            Path(self._path(name)).parent.mkdir(parents=True, exist_ok=True)
            broker.snapshot(self._path(name))
            return
        with tempfile.TemporaryDirectory(prefix="nearcast-") as folder:
            broker.snapshot(Path(folder) / "snapshot")
            self.put_file(name, Path(folder) / "snapshot")

    def put_file(self, name: str, path: Path) -> None:
        """Write what a file of this host holds; on a local disk it is there whole or not at all."""
        if self.is_local:
            beside = Path(f"{self._path(name)}.{uuid.uuid4().hex[:8]}.tmp")
            beside.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(path, beside)
            beside.replace(self._path(name))
            return
        with open(path, "rb") as file, self._fs.open_output_stream(self._path(name)) as stream:
            shutil.copyfileobj(file, stream, _COPIED)

    def get_snapshot(self, name: str, threads: int = 1) -> nc.Broker:
        """The broker that was written, with this number of threads; its arrays are read when they are needed.

        Raises
        ------
        SetupError
            It is not there, is damaged, or was written by a version with another format.
        """
        try:
            return self._snapshot(name, threads)
        except SnapshotError as error:
            raise self.damaged(name, str(error)) from error

    def damaged(self, name: str, why: str) -> SetupError:
        """What to say of a file that does not hold what was written."""
        return SetupError(
            f"{self._path(name)} cannot be used ({why}). Put it back from a copy, or begin with another store and "
            "another checkpoint; if another version of Nearcast wrote it, go on with that one."
        )

    def _snapshot(self, name: str, threads: int) -> nc.Broker:
        if self.is_local:
            if not Path(self._path(name)).exists():
                self.need(name)
            return nc.Broker.restore(self._path(name), threads=threads)
        with tempfile.TemporaryDirectory(prefix="nearcast-") as folder:
            try:
                with (
                    self._fs.open_input_stream(self._path(name)) as stream,
                    open(Path(folder) / "snapshot", "wb") as file,
                ):
                    shutil.copyfileobj(stream, file, _COPIED)
            except FileNotFoundError:
                self.need(name)
            return nc.Broker.restore(Path(folder) / "snapshot", threads=threads)  # the map outlasts the name

    def put_copy(self, name: str, copied: State) -> None:
        """Write what `Broker.export_subscriptions` gave."""
        from nearcast.broker.snapshots import snapshot  # imports every engine, which those who only plan do not need

        with tempfile.TemporaryDirectory(prefix="nearcast-") as folder:
            snapshot.write(Path(folder) / "copy", copied)
            self.put(name, (Path(folder) / "copy").read_bytes())

    def get_copy(self, name: str) -> State:
        """What `put_copy` was given."""
        from nearcast.broker.snapshots import snapshot

        with tempfile.TemporaryDirectory(prefix="nearcast-") as folder:
            (Path(folder) / "copy").write_bytes(self.need(name).to_pybytes())
            try:
                return snapshot.read_stored(Path(folder) / "copy").state
            except SnapshotError as error:
                raise self.damaged(name, "it is cut short or damaged") from error

    def infos(self, folder: str) -> list[fs.FileInfo]:
        """What a folder holds."""
        found = self._fs.get_file_info(fs.FileSelector(self._path(folder), allow_not_found=True))
        return list(found)

    def names(self, folder: str) -> list[str]:
        """The names in a folder."""
        return [info.base_name for info in self.infos(folder)]

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.delete_file(self._path(name))

    def _path(self, name: str) -> str:
        return posixpath.join(self._root, name)


def _forget_old(folder: Path) -> None:
    """Delete what was fetched long ago; whoever has mapped it goes on."""
    before = time.time() - _KEPT_S
    for path in folder.iterdir():
        if path.name != "lock" and path.stat().st_mtime < before:
            path.unlink()


def checked_name(beginning: str, data: bytes) -> str:
    """A name for bytes that ends with their checksum."""
    return f"{beginning}.{zlib.crc32(data):08x}"


def fetched(uri: str | None, name: str | None, payload: bytes | None) -> Any:
    """The bytes of a block, given or named."""
    if name is None:
        assert payload is not None, "a block must have a name or be given"
        return payload
    assert uri is not None, "a named block must be in a store"
    return Store(uri).need_checked(name)
