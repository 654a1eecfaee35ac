"""A file of map tiles, handed out tile by tile."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright
from pmtiles.tile import tileid_to_zxy, zxy_to_tileid

from nearcast.errors import InvalidInput
from server.basemaps import TILE, archive
from server.page_browser import launched, opened
from server.serving import Process, running


def test_tiles_are_handed_out(tmp_path: Path) -> None:
    archive(tmp_path / "city.pmtiles", zooms=3)
    with running(tmp_path / "data", basemap=str(tmp_path / "city.pmtiles")) as server:
        told = server.http.get("/setup.json").json()["basemap"]
        assert told == {
            "type": "vector",
            "min_zoom": 0,
            "max_zoom": 2,
            "bounds": [-180, -85, 180, 85],
            "layers": ["water", "roads", "places"],
            "attribution": "© the makers",
        }
        answer = server.http.get("/basemap/2/1/3")
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.headers["content-type"] == "application/vnd.mapbox-vector-tile"
        assert answer.content == gzip.decompress(TILE)
        z, x, y = tileid_to_zxy(zxy_to_tileid(3, 0, 0) - 1)
        assert server.http.get(f"/basemap/{z}/{x}/{y}").status_code == 204
        assert server.http.get("/basemap/5/1/3").status_code == 204
        for path in ("2/4/0", "2/0/4", "99/0/0", "2/-1/0", "a/b/c"):
            assert server.http.get(f"/basemap/{path}").status_code == 404


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "none").write_bytes(b"PMTiles?" * 100)
    (tmp_path / "empty").write_bytes(b"")
    for name in ("none", "empty", "missing"):
        with (
            pytest.raises(InvalidInput, match="--basemap must be a file of PMTiles, version 3"),
            running(tmp_path / "data", basemap=str(tmp_path / name)),
        ):
            pass


@pytest.mark.slow
def test_the_page_draws_it(tmp_path: Path) -> None:
    archive(tmp_path / "city.pmtiles", zooms=4)
    process = Process(tmp_path / "data", "--space", "-1,-1,1,1", "--basemap", str(tmp_path / "city.pmtiles"))
    try:
        with sync_playwright() as playwright, opened(launched(playwright), process.address) as page:
            assert page.page.inner_text("#attribution") == "© the makers"
            page.until(lambda: any(path.startswith("/basemap/") for path in page.paths), "tiles are asked for")
            page.page.click("#theme")
            assert page.violations() == []
    finally:
        process.stop()
