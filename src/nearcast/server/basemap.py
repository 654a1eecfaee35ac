"""A file of map tiles under the page: `--basemap city.pmtiles`, read where it is, handed out tile by tile."""

from __future__ import annotations

import asyncio
import re
from functools import lru_cache
from typing import Any

from pmtiles.reader import MmapSource, Reader
from pmtiles.tile import Compression, TileType
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nearcast.errors import InvalidInput

_KINDS = {
    TileType.MVT: "application/vnd.mapbox-vector-tile",
    TileType.PNG: "image/png",
    TileType.JPEG: "image/jpeg",
    TileType.WEBP: "image/webp",
    TileType.AVIF: "image/avif",
}
_PACKED = {Compression.NONE: None, Compression.UNKNOWN: None, Compression.GZIP: "gzip", Compression.BROTLI: "br"}
_KEPT_TILES = 512
_DEEPEST = 26


class Basemap:
    """An archive of PMTiles, version 3.

    Raises
    ------
    InvalidInput
        If the file is none, or holds tiles that browsers cannot read.
    """

    def __init__(self, path: str) -> None:
        rule = "must be a file of PMTiles, version 3"
        try:
            with open(path, "rb") as file:
                self._reader = Reader(MmapSource(file))
            header = self._header = self._reader.header()
            metadata: dict[str, Any] = self._reader.metadata()
        except Exception as error:  # the library raises whatever its parsing comes upon
            raise InvalidInput("--basemap", path, f"{rule} ({error or type(error).__name__})") from None
        if header["tile_type"] not in _KINDS or header["tile_compression"] not in _PACKED:
            raise InvalidInput("--basemap", path, f"{rule}, with vector tiles or pictures, plain, gzip or brotli")
        self.is_vector = header["tile_type"] == TileType.MVT
        self._layers = [str(layer["id"]) for layer in metadata.get("vector_layers") or []]
        self._attribution = re.sub(r"<[^>]*>", "", str(metadata.get("attribution") or ""))
        self.tile = lru_cache(_KEPT_TILES)(self._tile)

    def _tile(self, z: int, x: int, y: int) -> bytes | None:
        return self._reader.get(z, x, y)  # type: ignore[no-any-return]

    def setup(self) -> dict[str, Any]:
        """What the page must know to draw it."""
        header = self._header
        corners = ("min_lon_e7", "min_lat_e7", "max_lon_e7", "max_lat_e7")
        return {
            "type": "vector" if self.is_vector else "raster",
            "min_zoom": header["min_zoom"],
            "max_zoom": header["max_zoom"],
            "bounds": [header[name] / 1e7 for name in corners],
            "layers": self._layers,
            "attribution": self._attribution,
        }

    def route(self) -> Route:
        """`GET /basemap/{z}/{x}/{y}`."""

        async def tile(request: Request) -> Response:
            z, x, y = (request.path_params[name] for name in "zxy")
            if z > _DEEPEST or x >= 2**z or y >= 2**z:
                return Response(status_code=404)
            content = await asyncio.to_thread(self.tile, z, x, y)
            if content is None:  # an empty vector tile is drawn, an empty picture is not
                return Response(status_code=204 if self.is_vector else 404)
            packed = _PACKED[self._header["tile_compression"]]
            headers = {"cache-control": "max-age=3600", **({"content-encoding": packed} if packed else {})}
            return Response(content, headers=headers, media_type=_KINDS[self._header["tile_type"]])

        return Route("/basemap/{z:int}/{x:int}/{y:int}", tile)
