"""A small archive of vector tiles: on every tile one square of water, with a road across."""

from __future__ import annotations

import gzip
from pathlib import Path

from pmtiles.tile import Compression, TileType, zxy_to_tileid
from pmtiles.writer import Writer


def varint(value: int) -> bytes:
    found = b""
    while value > 127:
        found, value = found + bytes([value & 127 | 128]), value >> 7
    return found + bytes([value])


def field(number: int, content: bytes | int) -> bytes:
    """A field of a protocol buffer."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def feature(kind: int, commands: list[int]) -> bytes:
    return field(3, kind) + field(4, b"".join(map(varint, commands)))


def layer(name: str, made: bytes) -> bytes:
    return field(3, field(15, 2) + field(1, name.encode()) + field(2, made) + field(5, 4096))


# Commands as the format of vector tiles has them: move to, line to, close; steps in zigzag.
SQUARE = feature(3, [9, 2048, 2048, 26, 2048, 0, 0, 2048, 2047, 0, 15])
ROAD = feature(2, [9, 0, 0, 10, 8192, 8192])
EMPTY = gzip.compress(b"")
TILE = gzip.compress(layer("water", SQUARE) + layer("roads", ROAD) + layer("places", ROAD))


def archive(path: Path, zooms: int) -> None:
    """Write it, for zooms below this."""
    metadata = {"vector_layers": [{"id": name} for name in ("water", "roads", "places")]}
    header = {"tile_type": TileType.MVT, "tile_compression": Compression.GZIP}
    header |= {"min_lon_e7": -1_800_000_000, "max_lon_e7": 1_800_000_000, "center_zoom": 0}
    header |= {"min_lat_e7": -850_000_000, "max_lat_e7": 850_000_000, "center_lon_e7": 0, "center_lat_e7": 0}
    with path.open("wb") as file:
        writer = Writer(file)
        ids = sorted(zxy_to_tileid(z, x, y) for z in range(zooms) for x in range(2**z) for y in range(2**z))
        for number in ids[:-1]:  # the last one is missing
            writer.write_tile(number, TILE if number < ids[-2] else EMPTY)
        writer.finalize(header, {**metadata, "attribution": '<a href="x">© the makers</a>'})
