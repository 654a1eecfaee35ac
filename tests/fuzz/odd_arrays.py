"""Arrow arrays of every type and encoding, good and odd, from a seeded source."""

from __future__ import annotations

import random
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

STRINGS = [b"fire", b"smoke fire", b"", b"Fire AND smoke", "straße ᾳ\u0308".encode(), b"s1", b"7", b"within", b"all"]
STRINGS += [b"[0, 0, 5, 5]", b"NaN", b"1", b"\x00", "👍🏽".encode(), b"a long text that no view holds inside itself"]
NOT_UTF8 = [b"\xff", b"fire \xed\xa0\x80", b"\xc3", b"a long text that no view holds inside itself \xf8"]
_FLAT = [
    pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(),
    pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"),
    pa.time64("us"), pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns"),
    pa.timestamp("s", "UTC"), pa.timestamp("ms", "Nowhere/Bad"), pa.timestamp("us", "+25:99"), pa.duration("s"),
    pa.duration("ns"), pa.month_day_nano_interval(), pa.decimal128(9, 2), pa.decimal256(40, 2), pa.binary(),
    pa.binary(3), pa.large_binary(), pa.binary_view(), pa.string(), pa.large_string(), pa.string_view(),
]  # fmt: skip


class Shout(pa.ExtensionType):
    """An extension whose values raise when they are read."""

    def __init__(self) -> None:
        super().__init__(pa.string(), "nearcast.shout")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Shout:
        return cls()

    def __arrow_ext_scalar_class__(self) -> type[pa.ExtensionScalar]:
        return ShoutScalar


class ShoutScalar(pa.ExtensionScalar):
    """A value that raises when it is read."""

    def as_py(self, **_: Any) -> Any:
        raise LookupError("not to be read")


class Plain(pa.ExtensionType):
    """An extension over any type, read as what it stores."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "nearcast.plain")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Plain:
        return cls(storage_type)


def odd_array(rng: random.Random, n: int, depth: int = 0) -> pa.Array:
    """An array of `n` rows of any type; it is valid but for strings that are not UTF-8, and maybe a slice."""
    before, after = rng.choice([(0, 0), (0, 0), (1, 2), (3, 0)])
    length = before + n + after
    makers = [_flat] * 6 + [_texts] * 3 + ([] if depth > 2 else _NESTED)
    while True:
        try:
            return rng.choice(makers)(rng, length, depth).slice(before, n)
        except pa.ArrowInvalid:  # Arrow does not make everything of anything
            continue


def _nulls(rng: random.Random, n: int) -> np.ndarray:
    share = rng.choice([0.0, 0.0, 0.3, 1.0])
    return np.array([rng.random() < share for _ in range(n)], dtype=bool)


def _bitmap(mask: np.ndarray) -> pa.Buffer | None:
    return pa.py_buffer(np.packbits(~mask, bitorder="little").tobytes() + b"\0" * 8) if mask.any() else None


def _flat(rng: random.Random, n: int, depth: int) -> pa.Array:
    kind = rng.choice(_FLAT)
    mask = _nulls(rng, n)
    if pa.types.is_null(kind):
        return pa.nulls(n)
    if pa.types.is_decimal(kind):
        given = [Decimal(rng.choice(["0", "1.25", "-3", "99999.99"])) for _ in range(n)]
        return pa.array([None if skip else value for value, skip in zip(given, mask, strict=True)], kind)
    if pa.types.is_boolean(kind):
        return pa.array(np.array([rng.random() < 0.5 for _ in range(n)], dtype=bool), mask=mask)
    if pa.types.is_fixed_size_binary(kind) or _is_text(kind):
        return _texts(rng, n, depth, kind)
    width = kind.bit_width // 8
    extremes = [0, 1, 2, 5, 17, -1, 2**62, -(2**62), 2**63 - 1, -(2**63), 10**12, 10**15, -(10**17)]
    raw = b""
    for _ in range(n):
        if pa.types.is_floating(kind):
            value = rng.choice([0.0, 1.5, -2.0, 89.0, 91.0, float("nan"), float("inf"), 1e4])
            raw += struct.pack({2: "<e", 4: "<f", 8: "<d"}[width], value)
        else:
            raw += (rng.choice(extremes) % 2 ** (8 * width)).to_bytes(width, "little")
    return pa.Array.from_buffers(kind, n, [_bitmap(mask), pa.py_buffer(raw + b"\0" * 8)])


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    is_view = types.is_string_view(kind) or types.is_binary_view(kind)
    return (
        is_view
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
    )


def _texts(rng: random.Random, n: int, depth: int, kind: pa.DataType | None = None) -> pa.Array:
    kind = kind or rng.choice([pa.string(), pa.string(), pa.large_string(), pa.string_view()])
    if pa.types.is_fixed_size_binary(kind):
        return pa.array([rng.choice([b"abc", b"\xff\xff\xff", None]) for _ in range(n)], kind)
    pool = STRINGS + (NOT_UTF8 if rng.random() < 0.4 else [])
    given = [None if skip else rng.choice(pool) for skip in _nulls(rng, n)]
    for text, raw in (
        (pa.string(), pa.binary()),
        (pa.large_string(), pa.large_binary()),
        (pa.string_view(), pa.binary_view()),
    ):
        if kind == text:
            return pa.array(given, raw).view(text)
    return pa.array(given, kind)


def _offsets(rng: random.Random, n: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum([rng.randint(0, 3) for _ in range(n)])]).astype(np.int64)


def _list(rng: random.Random, n: int, depth: int) -> pa.Array:
    offsets = _offsets(rng, n)
    child = _texts(rng, int(offsets[-1]), depth) if rng.random() < 0.6 else odd_array(rng, int(offsets[-1]), depth + 1)
    buffers = [_bitmap(_nulls(rng, n))]
    if rng.random() < 0.5:
        kind, width = rng.choice([(pa.list_(child.type), np.int32), (pa.large_list(child.type), np.int64)])
        return pa.Array.from_buffers(kind, n, [*buffers, pa.py_buffer(offsets.astype(width))], children=[child])
    kind, width = rng.choice([(pa.list_view(child.type), np.int32), (pa.large_list_view(child.type), np.int64)])
    order = np.array(rng.sample(range(n), n), dtype=np.int64)  # views may stand in any order
    starts, sizes = offsets[:-1][order].astype(width), np.diff(offsets)[order].astype(width)
    return pa.Array.from_buffers(kind, n, [*buffers, pa.py_buffer(starts), pa.py_buffer(sizes)], children=[child])


def _fixed_list(rng: random.Random, n: int, depth: int) -> pa.Array:
    size = rng.randint(0, 2)
    child = _texts(rng, n * size, depth) if rng.random() < 0.6 else odd_array(rng, n * size, depth + 1)
    return pa.Array.from_buffers(pa.list_(child.type, size), n, [_bitmap(_nulls(rng, n))], children=[child])


def _struct(rng: random.Random, n: int, depth: int) -> pa.Array:
    names = rng.choice([[], ["a"], ["a", "a"], ["type", "coordinates", "radius"], ["id", "words"]])
    children = [odd_array(rng, n, depth + 1) for _ in names]
    kind = pa.struct([pa.field(name, child.type) for name, child in zip(names, children, strict=True)])
    return pa.Array.from_buffers(kind, n, [_bitmap(_nulls(rng, n))], children=children)


def _map(rng: random.Random, n: int, depth: int) -> pa.Array:
    offsets = _offsets(rng, n)
    keys = pa.array([rng.choice(STRINGS + NOT_UTF8[:1]) for _ in range(int(offsets[-1]))], pa.binary()).view(
        pa.string()
    )
    items = _flat(rng, len(keys), depth) if rng.random() < 0.5 else _texts(rng, len(keys), depth)
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items)


def _dictionary(rng: random.Random, n: int, depth: int) -> pa.Array:
    words = _texts(rng, 4, depth) if rng.random() < 0.7 else _flat(rng, 4, depth)
    codes = pa.array(
        [rng.choice([0, 1, 2, 3, None]) for _ in range(n)], rng.choice([pa.int8(), pa.int32(), pa.uint64()])
    )
    return pa.DictionaryArray.from_arrays(codes, words)


def _runs(rng: random.Random, n: int, depth: int) -> pa.Array:
    ends = sorted(set(rng.choices(range(1, n + 1), k=rng.randint(1, 3))) | {n}) if n else []
    child = odd_array(rng, len(ends), depth + 1)
    run_end = rng.choice([pa.int16(), pa.int32(), pa.int64()])
    kind = pa.run_end_encoded(run_end, child.type)
    return pa.Array.from_buffers(kind, n, [None], children=[pa.array(ends, run_end), child])


def _union(rng: random.Random, n: int, depth: int) -> pa.Array:
    children = [odd_array(rng, n, depth + 1) for _ in range(2)]
    types = pa.array([rng.randint(0, 1) for _ in range(n)], pa.int8())
    if rng.random() < 0.5:
        return pa.UnionArray.from_sparse(types, children)
    return pa.UnionArray.from_dense(types, pa.array(range(n), pa.int32()), children)


def _extension(rng: random.Random, n: int, depth: int) -> pa.Array:
    if rng.random() < 0.3:
        return pa.ExtensionArray.from_storage(Shout(), pa.array(["fire"] * n, pa.string()))
    storage = odd_array(rng, n, depth + 1)
    return pa.ExtensionArray.from_storage(Plain(storage.type), storage)


_NESTED = [_list, _list, _list, _fixed_list, _struct, _map, _dictionary, _dictionary, _runs, _runs, _union, _extension]
