"""What the page asks for first."""

from __future__ import annotations

from pathlib import Path

from server.serving import running


def test_the_page_and_its_setup_are_handed_out(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        page = server.http.get("/")
        assert page.headers["content-type"].startswith("text/html")
        assert "<title>Nearcast</title>" in page.text
        assert server.http.get("/nearcast.js").headers["content-type"].startswith("text/javascript")
        assert (
            server.http.get("/vendor/maplibre-gl/maplibre-gl.mjs").headers["content-type"].startswith("text/javascript")
        )
        setup = server.http.get("/setup.json").json()
    window = {"count": 50, "age": None}
    known = {"bounds": [0, 0, 10, 10], "metric": "euclidean", "window": window, "now": None, "basemap": None}
    assert setup == known


def test_the_time_is_told_where_the_clock_moves_by_itself(tmp_path: Path) -> None:
    with running(tmp_path, clock="wall") as server:
        assert server.http.get("/setup.json").json()["now"] > 1_700_000_000_000


def test_setup_needs_a_key_once_there_is_one(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        made = server.http.post("/v1/admin/keys", json={"name": "ann", "scopes": ["admin"]})
        assert made.status_code in (200, 201), made.text
        assert server.http.get("/setup.json").status_code == 401
        headers = {"Authorization": f"Bearer {made.json()['key']}"}
        assert server.http.get("/setup.json", headers=headers).status_code == 200
