from __future__ import annotations

import contextlib
import functools
import json
import mmap
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract.contenders import Town

import nearcast as nc
from nearcast.broker.snapshots import snapshot
from nearcast.columns.arena import record
from nearcast.jit import KERNELS

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
WINDOW = nc.Window(count=50, age=3)
MAGIC = b"nearcast snapshot\n"
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
    nc.Broker(nc.Space((0, 0, 1, 1), metric="euclidean")).snapshot(tmp_path / "empty")
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


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A snapshot with all kinds, live messages, regions and words."""
    path = tmp_path_factory.mktemp("snapshots") / "whole"
    a_broker().snapshot(path)
    return path.read_bytes()


def manifest_of(whole: bytes) -> tuple[int, Any]:
    """Where the manifest of a snapshot ends, and what it says."""
    start = whole.index(b"\n", len(MAGIC)) + 1
    end = start + int(whole[len(MAGIC) :].split()[0])
    return end, json.loads(whole[start:end])


def with_manifest(whole: bytes, tree: bytes) -> bytes:
    """The same arrays after another manifest, whose own checksum is right."""
    end, _ = manifest_of(whole)
    before = MAGIC + f"{len(tree)} {zlib.crc32(tree)}\n".encode() + tree
    return before + bytes(-len(before) % 64) + whole[end + -end % 64 :]


def arrays_in(described: Any, at: int) -> Iterator[tuple[int, int]]:
    """Where arrays start and end."""
    if "dict" in described:
        for inner in described["dict"].values():
            for span in arrays_in(inner, at):
                at = span[1]
                yield span
    elif "array" in described:
        name = described["array"]
        fields = [tuple(field) for field in name["fields"]] if isinstance(name, dict) else []
        dtype = record(*fields, packed=name["packed"]) if fields else np.dtype(name)
        start = at + -at % 64
        yield start, start + dtype.itemsize * int(np.prod(described["shape"]))


def refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert refusal(path) in (f"{path} is cut short or damaged", f"{path} is not a Nearcast snapshot")


@pytest.mark.slow
def test_a_byte_changed_anywhere_is_found(tmp_path: Path, whole: bytes) -> None:
    end, manifest = manifest_of(whole)
    spans = list(arrays_in(manifest["state"], end))
    assert spans[-1][1] == len(whole)
    rng = np.random.default_rng(4)
    places = {*range(60), *rng.integers(0, end, 300).tolist(), *rng.integers(0, len(whole), 300).tolist()}
    for before, start, stop in zip([end, *(stop for _, stop in spans)], *zip(*spans, strict=True), strict=False):
        places |= {*range(before, start)} | (
            {start, stop - 1, int(rng.integers(start, stop))} if stop > start else set()
        )
    for at in sorted(places):
        changed = whole[at] ^ (1 << int(rng.integers(8))) if at % 2 else (whole[at] + int(rng.integers(1, 256))) % 256
        refused(tmp_path / "file", whole[:at] + bytes([changed]) + whole[at + 1 :])


def test_a_file_cut_anywhere_or_too_long_is_refused(tmp_path: Path, whole: bytes) -> None:
    path, (end, manifest) = tmp_path / "file", manifest_of(whole)
    stops = [stop for _, stop in arrays_in(manifest["state"], end)]
    for cut in {*range(60), end - 1, end, *stops[:-1], *(stop - 1 for stop in stops), len(whole) // 2}:
        refused(path, whole[:cut])
    for more in (b"\0", bytes(64), b"x", whole):
        refused(path, whole + more)
    refused(path, whole[:end] + b"\0" + whole[end:])
    refused(path, whole[:-65] + whole[-64:])
    refused(path, whole[: stops[40]] + whole[stops[50] :])


@pytest.mark.parametrize(
    "line",
    [b"\n", b"x y\n", b"5 1 2\n", b"-1 0\n", b"%d 0\n" % 10**18, b"9" * 62 + b"\n", b"1" * 9000],
    ids=lambda line: line[:12].decode(),
)
def test_a_malformed_second_line(line: bytes, tmp_path: Path, whole: bytes) -> None:
    refused(tmp_path / "file", MAGIC + line + whole[whole.index(b"\n", len(MAGIC)) + 1 :])


def test_a_second_line_is_written_in_one_way_only(tmp_path: Path, whole: bytes) -> None:
    line = whole[len(MAGIC) : whole.index(b"\n", len(MAGIC)) + 1]
    for other in (line.replace(b" ", b"\t"), b"0" + line, b"+" + line, line.replace(b"\n", b" \n"), b" " + line):
        refused(tmp_path / "file", MAGIC + other + whole[len(MAGIC) + len(line) :])


def test_what_is_no_file_is_no_snapshot(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero"), Path("/dev/null")):
        assert refusal(path) == f"{path} is not a Nearcast snapshot"


def test_a_file_that_shrinks_while_it_is_opened(tmp_path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    path, mapped = tmp_path / "file", mmap.mmap

    def shrunk(*args: Any, **kwargs: Any) -> mmap.mmap:
        os.truncate(path, 100)
        return mapped(*args, **kwargs)

    path.write_bytes(whole)
    monkeypatch.setattr(mmap, "mmap", shrunk)
    assert refusal(path) == f"{path} is cut short or damaged"


ARRAY = {"array": "<i4", "shape": [1], "checksum": zlib.crc32(bytes(4))}
RECORD = {"fields": [["a", "<i4"]], "packed": False}
TYPES = ["O", "|O8", ">i4", "i4", "<U9", "|V8", "<c16", "<M8[ns]", "nope", "", 4, None, [], ["<i4"], {}, {"fields": []}]
FIELDS = [
    [], {}, "a", [[]], [["a"]], [["a", "O"]], [["a", "<i4"], ["a", "<i4"]], [["", "<i4"]], [[1, "<i4"]],
    [["a", "<i4", 3]], [["a", [["b", "<i4"]]]], [[["a", "b"], "<i4"]],
]  # fmt: skip
SHAPES = [
    [], 1, "1", None, {}, [-1], [-1, -1], [2**63], [2**62, 4], [2**32, 2**32], [0, 2**63], [10**30], [1.0], [True],
    ["1"], [[1]], [1] * 50, [0] * 99, [None],
]  # fmt: skip
ARRAYS = [
    *({"array": name} for name in [*TYPES, RECORD | {"packed": 1}, RECORD | {"more": 1}]),
    *({"array": RECORD | {"fields": fields}} for fields in FIELDS),
    *({"shape": shape} for shape in SHAPES),
    *({"checksum": checksum} for checksum in (1, -1, "0", None, [], 0.0, 2**70, True)),
    {"more": 1},
]
STATES = [
    None, [], {}, {"dict": []}, {"dict": {"a": 1}}, {"dict": {}, "value": 1}, {"value": {}}, {"value": [1]},
    {"value": 5}, {"array": "<i4"}, *({"dict": {"a": ARRAY | change}} for change in ARRAYS),
]  # fmt: skip
MANIFESTS: list[Any] = [
    [],
    10,
    {"state": {"dict": {}}},
    *({"format": number, "state": {"dict": {}}} for number in ([10], True, "10", None, 10.0)),
    {"format": snapshot.FORMAT},
    {"format": snapshot.FORMAT, "state": {"dict": {}}, "more": 1},
    *({"format": snapshot.FORMAT, "state": state} for state in STATES),
]


def test_a_crafted_manifest_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    snapshot.write(path, {"a": np.zeros(1, np.int32)})
    small = path.read_bytes()
    assert manifest_of(small)[1] == {"format": snapshot.FORMAT, "state": {"dict": {"a": ARRAY}}}
    for manifest in MANIFESTS:
        path.write_bytes(with_manifest(small, json.dumps(manifest).encode()))
        with pytest.raises(nc.SnapshotError, match="is cut short or damaged"):
            snapshot.read(path)


def test_a_manifest_that_is_too_deep_or_too_long(tmp_path: Path, whole: bytes) -> None:
    deep = b'{"format": %d, "state": ' % snapshot.FORMAT
    for tree in (
        deep + b'{"dict": {"a": ' * 20 + b'{"value": 1}' + b"}}" * 20 + b"}",
        deep + b'{"dict": {"a": ' * 100_000 + b'{"value": 1}' + b"}}" * 100_000 + b"}",
        b"[" * 10**6,
        deep + b"9" * 10**5 + b"}",
        b"",
        b"\xff\xfe",
    ):
        refused(tmp_path / "file", with_manifest(whole, tree))


def entries_of(state: dict[str, Any], *names: str) -> Iterator[tuple[str, ...]]:
    """The paths to all that is no dictionary."""
    for name, value in state.items():
        if isinstance(value, dict):
            yield from entries_of(value, *names, name)
        else:
            yield *names, name


def crafted(path: Path, whole: Path, change: Callable[[dict[str, Any], str], None], *names: str) -> str:
    """What a restore says to a file, written in order, whose state was changed at one place."""
    state = snapshot.read(whole)
    inner = state
    for name in names[:-1]:
        inner = inner[name]
    change(inner, names[-1])
    snapshot.write(path, state)
    return refusal(path)


def other_values(value: Any) -> Iterator[Any]:
    """What a reader must not take for this value."""
    if isinstance(value, np.ndarray):
        yield 1
        yield value.reshape(-1, 1) if value.ndim == 1 else value.reshape(-1)
        yield np.zeros(value.shape, np.int16)
    else:
        yield from (np.zeros(1), {"a": 1})
        if isinstance(value, str):
            yield from ("", 5)
        elif value is not None:
            yield from ("1", None, 1.5 if isinstance(value, int) else 7, -(10**30), 10**30)


@pytest.mark.slow
def test_a_file_that_holds_another_state_is_refused(
    tmp_path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda number: None)
    path, intact = tmp_path / "file", tmp_path / "whole"
    intact.write_bytes(whole)
    state = snapshot.read(intact)
    paths = [names for names in entries_of(state) if names[0] not in ("window", "settings")]
    for names in paths[:: 2 if COMPILED else 20]:
        value = functools.reduce(lambda inner, name: inner[name], names, state)
        for change in (
            lambda inner, name: inner.pop(name),
            lambda inner, name: inner.update(more=1),
            *(lambda inner, name, other=other: inner.update({name: other}) for other in other_values(value)),
        ):
            assert crafted(path, intact, change, *names).startswith(f"{path} does not hold a broker: ")
    for kind, settings in state["settings"].items():
        for name in settings:
            for other in (np.zeros(1), {"a": 1}, "", -(10**30)):
                assert "does not hold a broker" in crafted(
                    path, intact, lambda inner, name, other=other: inner.update({name: other}), "settings", kind, name
                )
    snapshot.write(path, {})
    assert refusal(path) == f"{path} does not hold a broker: 'space'"


def numbers_in(state: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Paths to arrays that are not empty, and of records each field, where whole numbers stand."""
    for names in entries_of(state):
        value = functools.reduce(lambda inner, name: inner[name], names, state)
        if isinstance(value, np.ndarray) and value.size:
            for field in value.dtype.names or ("",):
                if (value.dtype[field] if field else value.dtype).kind in "iu":
                    yield names, field


# Fields and arrays by which something is looked up.
REFERENCES = {
    "slots", "start", "length", "free", "numbers", "kinds", "queue", "ring_start", "n_rings", "clauses", "clause_start",
    "clause_size", "term_start", "n_terms", "region_kind", "firsts", "prefix_ids", "list_heads", "heads", "blocks",
    "oldest", "soonest", "message", "block", "n_entries", "next", "slot", "n_groups", "room", "n_more", "group_blocks",
    "posting_blocks", "ranges", "part", "child", "node", "leaf", "axis", "parent", "member_start", "word_start",
    "entry_start", "list_start", "n_members", "member_room", "n_listed", "n_words", "entry_room", "n_lists", "term",
    "bytes", "words", "kind", "levels", "coming", "word", "now", "message_room", "n_messages", "order",
}  # fmt: skip


@pytest.mark.skipif(not COMPILED, reason="takes long")
def test_numbers_that_point_outside_are_refused(tmp_path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda number: None)
    path, intact = tmp_path / "file", tmp_path / "whole"
    intact.write_bytes(whole)
    found = [(names, field) for names, field in numbers_in(snapshot.read(intact)) if (field or names[-1]) in REFERENCES]
    assert {field or names[-1] for names, field in found} == REFERENCES - {"free"}, "all are there, but nothing is free"
    for names, field in found:
        if (names[1:], field) == (("nearest", "all", "tree", "blocks"), "n_words"):
            continue  # a number by which costs are estimated
        state = snapshot.read(intact)
        array = functools.reduce(lambda inner, name: inner[name], names, state)
        column = array[field] if field else array
        column[...] = np.iinfo(column.dtype).max
        snapshot.write(path, state)
        assert refusal(path).startswith(f"{path} does not hold a broker: "), (names, field)


@pytest.mark.skipif(not COMPILED, reason="takes long")
def test_a_state_that_was_meddled_with_is_refused_or_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda number: None)
    path, intact, rng = tmp_path / "file", tmp_path / "whole", np.random.default_rng(8)
    a_broker().snapshot(intact)
    found = list(numbers_in(snapshot.read(intact)))
    for at in rng.integers(0, len(found), 60).tolist():
        state = snapshot.read(intact)
        array = functools.reduce(lambda inner, name: inner[name], found[at][0], state)
        column = (array[found[at][1]] if found[at][1] else array).reshape(-1)
        column[rng.integers(column.size)] ^= 1 << int(rng.integers(column.dtype.itemsize * 8 - 1))
        snapshot.write(path, state)
        with contextlib.suppress(nc.SnapshotError):
            broker = nc.Broker.restore(path)
            broker.publish(Town(6).messages(20, 500))
            broker.move("topk0", lon=1, lat=1)
            broker.unsubscribe_many(["nearest1", "within1", "similar1", "topk1"])
            broker.advance(10**9)


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
    for value in (
        [1],
        np.zeros(2, dtype=object),
        np.zeros((1, 1, 1)),
        np.zeros(1, dtype=[("a", "i1"), ("b", "f8")]),
        object(),
    ):
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
    nc.Broker.restore(tmp_path / "broker")  # whose checks of the file call kernels, too
    before = {kernel: kernel.n_compiled for kernel in KERNELS}
    restored = nc.Broker.restore(tmp_path / "broker")
    for event in events:
        event(restored)
    assert [kernel.__name__ for kernel in KERNELS if kernel.n_compiled != before[kernel]] == []
