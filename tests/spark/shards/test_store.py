"""Stores: what is fetched once, what is refused at once, and what damage is called."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

import nearcast as nc
from nearcast.broker.snapshots import snapshot
from nearcast.errors import SetupError
from nearcast.spark.shards import store as stores
from nearcast.spark.shards.store import Store


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store that is not on a disk of this host; what is fetched of it goes to a folder of the test."""
    monkeypatch.setattr(stores.tempfile, "gettempdir", lambda: str(tmp_path / "host"))
    (tmp_path / "store" / "q" / "blocks").mkdir(parents=True)
    store = Store((tmp_path / "store").as_uri())
    store.is_local = False
    return store


def test_a_block_is_fetched_once_by_a_host(remote: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    remote.put("q/blocks/1", b"one")
    fetched: list[str] = []

    def need(store: Store, name: str, _need: Any = Store.need) -> Any:
        fetched.append(name)
        return _need(store, name)

    monkeypatch.setattr(Store, "need", need)
    held = [remote.need_shared("q/blocks/1").to_pybytes() for _ in range(3)]
    assert (held, fetched) == ([b"one"] * 3, ["q/blocks/1"])
    (copy,) = (path for path in (tmp_path / "host").rglob("q_blocks_*"))
    os.utime(copy, (1, time.time() - 3600))
    remote.put("q/blocks/2", b"two")
    assert remote.need_shared("q/blocks/2").to_pybytes() == b"two"
    assert not copy.exists()
    with pytest.raises(SetupError, match=r"q/blocks/3 is not there\. Every host must see the same store"):
        remote.need_shared("q/blocks/3")


def test_snapshots_of_other_formats_and_damaged_ones_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = nc.Broker(nc.Space((0, 0, 1, 1)), nc.Window(count=3))
    store = Store(tmp_path.as_uri())
    store.put_snapshot("s", broker)
    whole = (tmp_path / "s").read_bytes()
    (tmp_path / "s").write_bytes(whole[:-1])
    with pytest.raises(SetupError, match=r"/s cannot be used \(.* is cut short or damaged\)\. Put it back from a copy"):
        store.get_snapshot("s")
    monkeypatch.setattr(snapshot, "FORMAT", snapshot.OLDEST - 1)
    store.put_snapshot("s", broker)
    monkeypatch.undo()
    with pytest.raises(SetupError, match=r"has snapshot format .* go on with that one"):
        store.get_snapshot("s")
    (tmp_path / "s").unlink()
    with pytest.raises(SetupError, match="is not there"):
        store.get_snapshot("s")


def test_blocks_that_are_damaged_are_named(tmp_path: Path) -> None:
    store = Store(tmp_path.as_uri())
    name = stores.checked_name("q/block", b"rows of messages")
    store.put(name, b"rows of messages")
    assert store.need_checked(name).to_pybytes() == b"rows of messages"
    store.put(name, b"rows of messagey")
    with pytest.raises(SetupError, match=r"/q/block\.\w+ cannot be used \(it is cut short or damaged\)\. Put it back"):
        store.need_checked(name)
    store.put("copy", b"nearcast")
    with pytest.raises(SetupError, match="/copy cannot be used"):
        store.get_copy("copy")
