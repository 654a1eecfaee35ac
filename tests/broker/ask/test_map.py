"""`broker.map()`: the live messages, subscriptions and results of a moment."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from page.browser import dom, embedded

import nearcast as nc
from nearcast.broker.ask import map as module

NOON = 1_715_860_800_000
SPACE = nc.Space((0, 0, 16, 16), "euclidean")
REGIONS: list[Any] = [
    nc.Box(0, 0, 8, 8),
    nc.Circle(4, 4, 3),
    nc.Polygon([(0, 0), (8, 0), (8, 8)]),
    nc.MultiPolygon([nc.Polygon([(0, 0), (4, 0), (4, 4)]), nc.Polygon([(9, 9), (12, 9), (12, 12)])]),
]


def broker() -> nc.Broker:
    made = nc.Broker(SPACE, nc.Window(count=6))
    for number, region in enumerate(REGIONS):
        made.subscribe(f"w{number}", nc.Within(region, "fire"))
    made.subscribe("s", nc.Similar(2, 2, "fire smoke", delta=0.5, tau=0.1))
    made.subscribe("t", nc.TopK(2, 2, "fire", k=3))
    made.subscribe("n", nc.Nearest(2, 2, "fire", k=2))
    messages = [nc.Message(f"m{i}", i, i / 2, "Fire, fire and </script> smoke", ts=NOON + i) for i in range(9)]
    made.publish(messages)
    return made


def drawn(page: nc.Map, folder: Path) -> dict[str, Any]:
    return embedded(page.save(folder / "deep" / "map.html"))


def test_results_are_those_of_the_broker(tmp_path: Path) -> None:
    ours = broker()
    data = drawn(ours.map(title="Now"), tmp_path)
    assert (data["title"], data["still"], data["metric"]) == ("Now", True, "euclidean")
    assert data["messages"]["ids"] == [f"m{i}" for i in range(3, 9)]
    assert data["messages"]["text"] == ["and fire script smoke"] * 6
    ids = [person["id"] for person in data["people"]]
    assert ids == ["w0", "w1", "w2", "w3", "s", "t", "n"]
    for id, (_, rows, signs, scores) in zip(ids, data["updates"], strict=True):
        held = [(f"m{row + 3}", score) for row, score in zip(rows, scores, strict=True)]
        wanted = ours.results(id)
        assert [message for message, _ in held] == [message for message, _ in wanted]
        for (_, ours_score), (_, score) in zip(held, wanted, strict=True):
            assert ours_score is None if score is None else ours_score == pytest.approx(score, abs=6e-4)
        assert set(signs) <= {1}
    assert sum(len(rows) for _, rows, *_ in data["updates"]) > 10
    west, south, east, north = data["bounds"]
    assert west < 0 < 12 < east
    assert south < 0 < 12 < north


def test_what_a_map_shows_can_be_chosen(tmp_path: Path) -> None:
    ours = broker()
    data = drawn(ours.map(["n", "w1", "n"]), tmp_path)
    assert [person["id"] for person in data["people"]] == ["n", "w1"]
    assert data["summary"] == [["live messages", "6"], ["subscriptions", "2 of 7"]]
    with pytest.raises(nc.UnknownId, match="id must be the id of a subscription, got 'nobody'"):
        ours.map(["nobody"])
    with pytest.raises(nc.InvalidInput, match="ids must be many"):
        ours.map("n")


def test_large_brokers_show_what_is_held_and_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_MESSAGES", 3)
    monkeypatch.setattr(module, "MOST_SUBSCRIPTIONS", 1)
    ours = broker()
    data = drawn(ours.map(["n"]), tmp_path)
    assert data["messages"]["ids"] == ["m3", "m4", "m8"]
    assert data["summary"] == [["live messages", "3 of 6"], ["subscriptions", "1 of 7"]]
    assert drawn(ours.map(["w0"]), tmp_path)["messages"]["ids"] == ["m6", "m7", "m8"]


def test_empty_brokers_and_those_without_a_window(tmp_path: Path) -> None:
    empty = drawn(nc.Broker(SPACE).map(), tmp_path)
    assert (empty["bounds"], empty["people"], empty["messages"]["ids"]) == ([0, 0, 16, 16], [], [])
    ours = nc.Broker(SPACE)
    ours.subscribe(1, nc.Nearest(2, 2, "fire", k=1))
    ours.publish([nc.Message(i, 2, 2 + i, "fire") for i in range(3)])
    data = drawn(ours.map(), tmp_path)
    assert data["messages"]["ids"] == [0]
    assert data["updates"][0][1] == [0]


def test_a_notebook_shows_the_page_in_a_frame() -> None:
    made = broker().map(title='A "map"')
    shown = made._repr_html_()
    found = re.fullmatch(r'<iframe [^>]*title="A &quot;map&quot;" srcdoc="([^"]*)"></iframe>', shown)
    assert found is not None
    assert unescape(found.group(1)) == made.html
    assert repr(made) == f"<Map 'A \"map\"': {len(made.html.encode()):,} bytes; save(path) writes it as HTML>"


def test_a_browser_shows_results_and_no_slider(tmp_path: Path) -> None:
    path = broker().map().save(tmp_path / "map.html")
    page = dom(path, tmp_path, "id=t")
    assert 'data-ready="yes"' in page
    assert re.search(r'<section id="time"[^>]* hidden', page)
    assert "Choose a subscription to see its result" in page
    assert re.findall(r'class="badge"[^>]*>(\d+)<', page) == [str(len(broker().results(id))) for id in
                                                              ("w0", "w1", "w2", "w3", "s", "t", "n")]  # fmt: skip
    listed = re.search(r'data-id="t".*?<ol[^>]*>(.*?)</ol>', page, re.DOTALL)
    assert listed is not None
    assert listed.group(1).count("fire script smoke") == 3
    assert "2024-05-16 12:00" in listed.group(1)


def test_a_browser_draws_every_region(tmp_path: Path) -> None:
    path = broker().map().save(tmp_path / "map.html")
    script = """window.onerror = text => document.body.append(make("pre", "said", text));
    const all = () => { P.forEach((_, p) => { choose(p); paint(); }); return "drawn " + P.length; };
    setTimeout(() => document.body.append(make("pre", "said", all())), 100);"""
    path.write_text(path.read_text("utf-8").replace("</body>", f"<script>{script}</script></body>"), "utf-8")
    assert re.findall(r'<pre class="said">(.*?)</pre>', dom(path, tmp_path)) == ["drawn 7"]
    framed = tmp_path / "notebook.html"
    framed.write_text(f"<!doctype html><body>{broker().map()._repr_html_()}</body>", "utf-8")
    assert "<iframe" in dom(framed, tmp_path)
