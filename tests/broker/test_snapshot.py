from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract.contenders import Town

import nearcast as nc
from nearcast.broker import snapshot
from nearcast.columns.arena import record
from nearcast.jit import KERNELS

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
WINDOW = nc.Window(count=50, age=3)
KINDS = ("within", "similar", "topk", "nearest")


def a_broker(window: nc.Window | None = WINDOW) -> nc.Broker:
    town = Town(2)
    broker = nc.Broker(town.space, window, nc.Weights.fit([" ".join(town.some_words(5)) for _ in range(9)]))
    kinds = KINDS if window is not None else ("within", "similar", "nearest")
    broker.subscribe_many([(f"{kind}{n}", town.query(kind)) for kind in kinds for n in range(5)])
    broker.subscribe("short", nc.Nearest(1, 1, "word0"), expires=10**4)
    broker.publish(town.messages(80 if COMPILED else 30))
    return broker


def everything(broker: nc.Broker) -> Any:
    names = broker.parts.registry.ids.to_arrow(broker.parts.registry.ids.keys.numbers()).to_pylist()
    stats = broker.stats()
    return (
        stats["subscriptions"],
        stats["messages"],
        stats["clock"],
        stats["words"],
        {id: broker.results(id) for id in sorted(names)},
    )


@pytest.mark.parametrize("window", [None, nc.Window(), nc.Window(count=20), nc.Window(age=0.5, max_ahead=9)], ids=repr)
def test_a_broker_comes_back(window: nc.Window | None, tmp_path: Path) -> None:
    broker = a_broker(window)
    broker.snapshot(tmp_path / "one")
    restored = nc.Broker.restore(str(tmp_path / "one"))
    assert restored.space == broker.space
    assert restored.window == broker.window
    assert everything(restored) == everything(broker)
    restored.check()
    town = Town(77)
    more = list(town.messages(20, 100))
    assert list(restored.publish(more)) == list(broker.publish(more))
    assert everything(restored) == everything(broker)


def test_an_empty_broker_comes_back(tmp_path: Path) -> None:
    nc.Broker(nc.Space((0, 0, 1, 1))).snapshot(tmp_path / "empty")
    broker = nc.Broker.restore(tmp_path / "empty")
    broker.subscribe("a", nc.Within(nc.Box(0, 0, 1, 1), "x"))
    broker.unsubscribe("a")
    broker.subscribe("a", nc.Nearest(0, 0, "x"))
    assert [update.message for update in broker.publish(nc.Message(1, 0, 0, "x"))] == [1]


def test_the_file_never_changes(tmp_path: Path) -> None:
    path = tmp_path / "broker"
    a_broker().snapshot(path)
    before = path.read_bytes()
    broker = nc.Broker.restore(path)
    broker.publish(Town(6).messages(30, 500))
    broker.move("topk0", lon=1, lat=1)
    broker.unsubscribe("nearest1")
    broker.reweigh(nc.Weights())
    broker.advance(10**9)
    assert path.read_bytes() == before
    assert everything(nc.Broker.restore(path)) == everything(nc.Broker.restore(path))


def test_a_snapshot_replaces_the_one_before_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "broker"
    broker = a_broker()
    broker.snapshot(path)
    restored = nc.Broker.restore(path)
    expected = everything(restored)
    broker.publish(Town(6).messages(30, 500))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", lambda number: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            broker.snapshot(path)
    assert os.listdir(tmp_path) == ["broker"], "nothing is left behind"
    assert everything(nc.Broker.restore(path)) == expected
    broker.snapshot(path)
    assert os.listdir(tmp_path) == ["broker"]
    assert everything(nc.Broker.restore(path)) == everything(broker) != expected
    assert everything(restored) == expected, "a map of the old file outlives it"


def refusal(path: Path) -> str:
    with pytest.raises(nc.SnapshotError) as refused:
        nc.Broker.restore(path)
    return str(refused.value)


def test_files_that_are_no_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"", b"\n", b"PAR1", b"nearcast snapshot", b"nearcast snapshop\n12\n{}", os.urandom(100)):
        path.write_bytes(content)
        assert refusal(path) == f"{path} is not a Nearcast snapshot"
    with pytest.raises(FileNotFoundError):
        nc.Broker.restore(tmp_path / "nowhere")


def test_files_that_are_cut_short_or_damaged(tmp_path: Path) -> None:
    path = tmp_path / "file"
    a_broker().snapshot(path)
    whole = path.read_bytes()
    manifest_end = whole.index(b"\n", len(b"nearcast snapshot\n")) + 1
    length = int(whole[len(b"nearcast snapshot\n") :].split()[0])
    cuts = [18, 20, manifest_end, manifest_end + length // 2, manifest_end + length, len(whole) // 2, len(whole) - 1]
    for cut in cuts:
        path.write_bytes(whole[:cut])
        assert refusal(path) == f"{path} is cut short or damaged"
    for at in (19, manifest_end + 1, manifest_end + 10, manifest_end + length // 2, manifest_end + length - 1):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert refusal(path) == f"{path} is cut short or damaged"
    for header in (
        b"nearcast snapshot\n\n",
        b"nearcast snapshot\nx y\n",
        b"nearcast snapshot\n5 1 2\n",
        b"nearcast snapshot\n-1 0\n",
    ):
        path.write_bytes(header + whole[manifest_end:])
        assert refusal(path) == f"{path} is cut short or damaged"


def test_another_format_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    with monkeypatch.context() as patched:
        patched.setattr(snapshot, "FORMAT", snapshot.FORMAT + 1)
        a_broker().snapshot(path)
    assert refusal(path) == f"{path} has snapshot format {snapshot.FORMAT + 1}, this version reads {snapshot.FORMAT}"


def test_a_state_of_any_nesting_comes_back(tmp_path: Path) -> None:
    pair, packed = (record(("a", "i4"), ("b", "f8"), packed=packed) for packed in (False, True))
    state = {
        "none": None,
        "yes": True,
        "number": np.int64(5),
        "float": 0.1,
        "large": 2**63 - 1,
        "text": "é",
        "nested": {"empty": np.zeros((0, 2)), "grid": np.arange(6.0).reshape(2, 3), "deep": {}},
        "records": np.array([(1, 2.0), (3, 4.0)], dtype=pair),
        "packed": np.array([(1, 2.0), (3, 4.0)], dtype=packed),
        "strided": np.arange(10)[::3],
        "bytes": np.arange(5, dtype=np.uint8),
    }
    snapshot.write(tmp_path / "state", state)
    back = snapshot.read(tmp_path / "state")
    assert back.keys() == state.keys()
    for name in ("none", "yes", "number", "float", "large", "text"):
        assert back[name] == state[name]
    assert back["nested"]["deep"] == {}
    assert back["nested"]["empty"].shape == (0, 2)
    for ours, theirs in ((back, state), (back["nested"], state["nested"])):
        for name, value in theirs.items():  # type: ignore[attr-defined]
            if isinstance(value, np.ndarray):
                assert (ours[name] == value).all()
                assert ours[name].dtype == value.dtype
                assert ours[name].dtype.isalignedstruct == value.dtype.isalignedstruct
                assert ours[name].flags.writeable
                assert ours[name].flags.aligned
                assert ours[name].flags.c_contiguous
    assert back["records"][1].b == 4.0


def test_what_cannot_be_stored_is_a_bug(tmp_path: Path) -> None:
    for value in ([1], np.zeros(1, dtype=[("a", "i1"), ("b", "f8")]), object()):
        with pytest.raises(AssertionError):
            snapshot.write(tmp_path / "state", {"value": value})
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not COMPILED, reason="kernels are not compiled")
def test_restored_arrays_need_no_second_compilation(tmp_path: Path) -> None:
    broker = a_broker()
    events = [
        lambda b: b.publish(Town(6).messages(60, 500)),
        lambda b: b.subscribe_many([(f"new{kind}", Town(1).query(kind)) for kind in KINDS]),
        lambda b: b.subscribe_many([(f"more{n}", Town(n).query("nearest")) for n in range(60)]),  # until tables grow
        lambda b: b.move("topk0", lon=1, lat=1),
        lambda b: b.move("within0", region=nc.Polygon([(0, 0), (9, 0), (0, 9)])),
        lambda b: b.reweigh(nc.Weights.fit(["word0"])),
        lambda b: b.unsubscribe("nearest1"),
        lambda b: b.advance(10**9),
    ]
    broker.snapshot(tmp_path / "broker")
    for event in events:
        event(broker)
    before = {kernel: len(kernel.signatures) for kernel in KERNELS}
    restored = nc.Broker.restore(tmp_path / "broker")
    for event in events:
        event(restored)
    assert [kernel.__name__ for kernel in KERNELS if len(kernel.signatures) != before[kernel]] == []
