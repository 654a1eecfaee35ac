from __future__ import annotations

import re
from pathlib import Path

from nearcast.page.draw import draw, followers
from nearcast.workload import city
from page.browser import dom, embedded

NOON = 1_715_860_800_000

MESSAGES = [
    {"id": 3, "lon": 0.5, "lat": 0.5, "text": "fire </script><script>alert(1)</script> & smoke", "ts": NOON},
    {"id": 7, "lon": 1.0, "lat": 0.0, "keywords": ["free", "parking"], "ts": NOON + 60_000, "expires": NOON + 240_000},
    {"id": 8, "lon": 0.0, "lat": 1.0, "text": "<!-- free parking 2", "ts": NOON + 120_000},
]
EVENTS = [
    {"event": "subscribe", "id": "x", "kind": "topk", "lon": 0, "lat": 0, "keywords": "other"},
    {
        "event": "subscribe",
        "id": "ann",
        "kind": "nearest",
        "lon": 0,
        "lat": 0,
        "keywords": "parking",
        "k": 1,
        "ts": NOON,
    },
    {"event": "subscribe", "id": "bob", "kind": "within", "region": [0, 0, 1, 1], "keywords": ["fire"]},
    {"event": "move", "id": "ann", "lon": 0.5, "lat": 1.0, "ts": NOON + 180_000},
    {"event": "unsubscribe", "id": "bob", "ts": NOON + 200_000},
    {"event": "move", "id": "nobody", "lon": 0.5, "lat": 1.0, "ts": NOON},
]
NAMED = {"ann": ("Ann", "Circling <b>the block</b>."), "bob": ("Bob", "Watches."), "cy": ("Cy", "Never came.")}
UPDATES = [
    {"subscription": "bob", "message": 3, "sign": "+", "score": None, "ts": NOON},
    {"subscription": "ann", "message": 7, "sign": "+", "score": 111_195.123, "ts": NOON + 60_000},
    {"subscription": "x", "message": 7, "sign": "+", "score": 0.5, "ts": NOON + 60_000},
    {"subscription": "ann", "message": 7, "sign": "-", "score": 111_195.123, "ts": NOON + 120_000},
    {"subscription": "ann", "message": 8, "sign": "+", "score": 900.26, "ts": NOON + 120_000},
]


def report(folder: Path, **change: object) -> Path:
    given = {
        "title": "A <small> day",
        "bounds": (0, 0, 1, 1),
        "messages": MESSAGES,
        "subscribers": followers(EVENTS, NAMED),
        "updates": UPDATES,
        "summary": {"posts": 3, "updates": 12_345, "took": "1.5 s"},
        "age": 3_600,
    }
    return draw(**{**given, **change}).save(folder / "sub" / "report.html")


def test_followers_gather_names_moves_and_ends():
    ann, bob = followers(EVENTS, NAMED)
    assert (ann["id"], ann["name"], ann["moves"]) == ("ann", "Ann", [{"ts": NOON + 180_000, "lon": 0.5, "lat": 1.0}])
    assert "event" not in ann
    assert "until" not in ann
    assert (bob["until"], bob["moves"]) == (NOON + 200_000, [])


def test_the_data_survives_the_way_into_the_page(tmp_path):
    data = embedded(report(tmp_path))
    assert data["messages"]["text"] == [MESSAGES[0]["text"], "free parking", MESSAGES[2]["text"]]
    assert data["messages"]["ids"] == [3, 4, 1]
    assert data["messages"]["ts"] == [NOON, 60_000, 60_000]
    assert data["messages"]["expires"] == {"1": NOON + 240_000}
    assert (data["messages"]["x"], data["messages"]["y"]) == ([8192, 16383, 0], [8192, 16383, 0])
    assert data["updates"][0] == [[NOON + 60_000, 60_000, 0], [1, 1, 2], [1, -1, 1], [111195.1, 111195.1, 900.3]]
    assert data["updates"][1] == [[NOON], [0], [1], [None]]
    assert data["summary"] == [["posts", "3"], ["updates", "12,345"], ["took", "1.5 s"]]
    assert data["age"] == 3_600_000


def test_the_page_stands_alone_and_cannot_be_broken_by_text(tmp_path):
    page = report(tmp_path).read_text("utf-8")
    assert "<title>A &lt;small&gt; day</title>" in page
    assert page.count("</script>") == 2
    assert "alert(1)</script>" not in page
    assert not re.search(r"(src|href)=|https?://(?!www\.w3\.org/2000/svg)|@import|url\(", page)


def test_ids_that_are_strings_and_an_empty_run_are_fine(tmp_path):
    data = embedded(report(tmp_path, messages=[{**MESSAGES[0], "id": "a"}], updates=[]))
    assert data["messages"]["ids"] == ["a"]
    empty = embedded(report(tmp_path, messages=[], subscribers=[], updates=[]))
    assert empty["messages"]["text"] == []


def test_versions_follow_one_another_and_leave_as_they_entered(tmp_path):
    told = [{"id": 1, "lon": 1, "lat": 1, "text": f"tram {n}", "ts": n} for n in (1, 5, 9)]
    told.insert(1, {"id": 2, "lon": 1, "lat": 1, "text": "taken", "ts": 2, "until": 7, "expires": 8})
    signs = [(1, "+", 1), (2, "+", 2), (2, "-", 7), (1, "-", 9), (1, "+", 12), (1, "-", 13)]
    updates = [{"subscription": "ann", "message": id, "sign": sign, "score": None, "ts": ts} for id, sign, ts in signs]
    data = embedded(report(tmp_path, messages=told, updates=updates))
    assert data["messages"]["next"] == {"0": 2, "2": 3}
    assert data["messages"]["expires"] == {"1": 7}
    ann = [person["id"] for person in data["people"]].index("ann")
    assert data["updates"][ann][1] == [0, 1, 1, 0, 3, 3]


def test_the_demo_stays_small(tmp_path):
    posts, events = city.sample()
    people = followers(events, {person.id: (person.name, person.story) for person in city.PEOPLE})
    path = draw(
        title="A day",
        bounds=city.BOUNDS,
        messages=city.versions(posts, events),
        subscribers=people,
        updates=[],
        summary={},
        features=city.features(),
    ).save(tmp_path / "report.html")
    assert len(people) == len(city.PEOPLE)
    assert path.stat().st_size < 390_000


def test_a_browser_lists_everybody_and_what_they_hold(tmp_path):
    page = dom(report(tmp_path), tmp_path)
    assert 'data-ready="yes"' in page
    assert "A &lt;small&gt; day" in page
    assert re.findall(r"<b>(\w+)</b>", page) == ["Ann", "Bob"]
    assert "Circling &lt;b&gt;the block&lt;/b&gt;." in page


def test_a_browser_shows_the_result_of_the_chosen_one(tmp_path):
    page = dom(report(tmp_path), tmp_path, "id=ann&tab=now")
    listed = re.search(r'data-id="ann".*?<ol[^>]*>(.*?)</ol>', page, re.DOTALL).group(1)
    assert "&lt;!-- free parking 2" in listed
    assert "55.6 km" in listed  # measured from where she moved to, not as it was sent
    assert "Result (1)" in page
    assert "What happened (3)" in page


def test_a_browser_goes_back_in_time(tmp_path):
    path = report(tmp_path)
    page = dom(path, tmp_path, f"id=ann&tab=now&t={NOON + 60_000}")
    listed = re.search(r'data-id="ann".*?<ol[^>]*>(.*?)</ol>', page, re.DOTALL).group(1)
    assert "free parking" in listed
    assert "111.2 km" in listed
    assert re.search(r'<output id="clock"[^>]*>12:01<', page)


def test_a_browser_opens_an_empty_report(tmp_path):
    page = dom(report(tmp_path, messages=[], subscribers=[], updates=[]), tmp_path)
    assert 'data-ready="yes"' in page


HANDS = """
const said = [], say = (name, value) => said.push(name + "=" + value);
mapEl.setPointerCapture = () => {};
const hand = (type, x, y) => {
  const b = mapEl.getBoundingClientRect(), where = { clientX: b.left + x, clientY: b.top + y };
  mapEl.dispatchEvent(new PointerEvent(type, { ...where, pointerId: 1, pointerType: "mouse", bubbles: true }));
};
window.onerror = text => say("error", text);
setTimeout(() => {
  document.querySelector(".who").click(); say("open", document.querySelector(".open").dataset.id);
  const row = result(S.who)[0][0]; paint(); hand("pointermove", atX(row), atY(row)); say("tip", $("tip").textContent);
  document.querySelector(".open ol button").click(); say("lit", S.lit === row);
  const k = V.k; $("in").click(); say("zoomed", V.k > k); $("fit").click(); say("fitted", V.fitted);
  hand("pointerdown", 90, 90); hand("pointermove", 150, 120); hand("pointerup", 150, 120); say("dragged", !V.fitted);
  slider.value = T0; slider.dispatchEvent(new Event("input")); say("back", $("clock").textContent);
  $("play").click(); say("playing", S.playing);
  tick(before + 50); say("later", S.t > T0); say("paused", (play(false), !S.playing)); choose(-1); say("closed", S.who);
  document.body.append(make("pre", "said", said.join(";")));
}, 200);
"""


def test_a_browser_follows_the_hand(tmp_path):
    path = report(tmp_path)
    page = path.read_text("utf-8")
    path.write_text(page.replace("</body>", f"<script>{HANDS}</script></body>"), "utf-8")
    said = re.search(r'<pre class="said">(.*?)</pre>', dom(path, tmp_path), re.DOTALL).group(1)
    assert said.split(";")[0] == "open=ann"
    assert "error=" not in said
    assert "free parking 2" in said
    assert "reached Ann" in said
    for step in ("lit=true", "zoomed=true", "fitted=true", "dragged=true", "back=12:00", "playing=true", "later=true"):
        assert step in said
    assert said.endswith("paused=true;closed=-1")
