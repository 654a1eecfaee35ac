"""The page as a person meets it, in a real browser with a real server: what is done, seen and stored."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, sync_playwright

from server.page_browser import Opened, launched, opened
from server.serving import Process

pytestmark = pytest.mark.slow

EARTH = ("--space", "-1,-1,1,1", "--window-age", "3600", "--clock", "event")
PLANE = ("--space", "0,0,100,100", "--metric", "euclidean", "--window-count", "200", "--clock", "event")
EVERYWHERE = [-1, -1, 1, 1]
TS = 1_700_000_000_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = launched(playwright)
        yield browser
        browser.close()


def served(folder: Path, *options: str) -> Iterator[str]:
    process = Process(folder, *options)
    yield process.address
    process.stop()


@pytest.fixture(scope="module")
def earth(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from served(tmp_path_factory.mktemp("earth"), *EARTH)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from served(tmp_path_factory.mktemp("plane"), *PLANE)


@pytest.fixture(scope="module")
def one_page(browser: Browser, earth: str) -> Iterator[Opened]:
    with opened(browser, earth) as page:
        yield page


@pytest.fixture
def page(one_page: Opened) -> Iterator[Opened]:
    """The map of the Earth takes long to draw without a graphics card, so that one serves several tests."""
    yield one_page
    one_page.tidy()
    assert one_page.errors == []


def post(id: str, text: str, lon: float = 0.0, lat: float = 0.0, ts: int = TS) -> dict[str, Any]:
    return {"id": id, "text": text, "lon": lon, "lat": lat, "ts": ts}


def drag(page: Opened, key: str, dx: int, dy: int) -> None:
    box = page.page.locator(f".pin[data-key='{key}']").bounding_box()
    assert box is not None
    x, y, mouse = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, page.page.mouse
    mouse.move(x, y)
    mouse.down()
    mouse.move(x + dx, y + dy, steps=8)
    mouse.up()


def test_what_is_published_is_told_in_the_feed_and_on_the_map(page: Opened) -> None:
    page.put("harbour", kind="within", region=EVERYWHERE, keywords="ferry AND NOT drill")
    page.put("close", kind="nearest", lon=0, lat=0, keywords="ferry", k=1)
    page.listed("harbour")
    page.listed("close")
    page.publish(post("f1", "ferry late", 0.5), post("f2", "ferry drill", 0.1))
    page.publish(post("f3", "ferry sank", 0.01))
    page.until(lambda: page.page.locator("#feed li").count() == 7, "seven updates are in the feed")
    feed = [(each["subscription"], each["sign"], each["message"]) for each in reversed(page.state("feed"))]
    assert [each for each in feed if each[0] == "harbour"] == [("harbour", "+", "f1"), ("harbour", "+", "f3")]
    close = [each[1:] for each in feed if each[0] == "close"]
    assert close == [("+", "f1"), ("-", "f1"), ("+", "f2"), ("-", "f2"), ("+", "f3")]
    rows = page.page.locator("#feed li")
    assert "ferry sank" in rows.first.inner_text()
    assert rows.locator(".hidden", has_text="left").count() == close.count(("-", "f1")) + close.count(("-", "f2"))
    page.until(lambda: page.state("messages") == 3, "the map has all messages")
    assert len(page.served("nearcast-page")) == 3
    page.until(
        lambda: page.page.locator(".pin").count() == len(page.state("subscriptions")) - 1,
        "everybody but the page itself has a pin",
    )
    page.select("harbour")
    page.until(lambda: page.page.locator("#result li").count() == 2, "the result is shown")
    assert page.page.locator("#result li").all_inner_texts()[0].startswith("ferry")


def test_publish_form_reaches_subscribers(page: Opened) -> None:
    page.put("listener", kind="within", region=EVERYWHERE, keywords="hello")
    page.listed("listener")
    page.page.click("#publish-panel summary")
    page.page.fill("#publish [name=text]", "hello from the page")
    page.page.click("#publish [type=submit]")
    page.until(lambda: len(page.result("listener")) == 1, "the message arrives")
    assert page.result("listener") == page.served("listener")


def test_form_makes_every_kind_and_shows_the_servers_errors(page: Opened) -> None:
    form = page.page
    form.click("#new")
    form.fill("#editor [name=id]", "typed")
    form.fill("#keywords", "fire AND AND smoke")
    form.click("#create")
    form.wait_for_selector("#underline mark")
    told = page.http.put(
        "/v1/subscriptions/typed", json={"kind": "within", "region": [0, 0, 1, 1], "keywords": "fire AND AND smoke"}
    )
    assert form.inner_text("#problem") == told.json()["detail"].rstrip()
    position = int(re.findall(r"position (\d+)", told.json()["detail"])[0])
    assert position == len("fire AND ") + 1
    assert form.inner_text("#underline mark") == "AND"
    assert form.get_attribute("#keywords", "aria-invalid") == "true"
    page.publish(post("alarm", "fire and smoke", 0.1), post("camp", "fire", 0.1))
    form.fill("#keywords", "fire AND smoke")
    estimate = "1 of the live messages match"
    page.until(lambda: form.inner_text("#estimate").startswith(estimate), "what it would match is told before")
    assert form.is_hidden("#problem")
    for name, value in (("west", -0.5), ("south", -0.5), ("east", 0.5), ("north", 0.25)):
        form.fill(f"#editor [name={name}]", str(value))
    form.click("#create")
    page.until(lambda: "typed" in page.state("subscriptions"), "the subscription is made")
    assert page.body("typed")["region"] == [-0.5, -0.5, 0.5, 0.25]
    assert form.is_hidden("#problem")
    form.fill("#keywords", "fire (")
    form.wait_for_selector("#underline mark")
    form.fill("#keywords", "fire")
    page.until(lambda: page.body("typed")["keywords"] == "fire", "an edit is sent by itself")
    for kind, fields in (
        ("similar", {"delta": 0.3, "tau": 0.4}),
        ("topk", {"alpha": 0.7, "k": 5, "decay": 90.5}),
        ("nearest", {"k": 3}),
    ):
        form.click("#new")
        form.fill("#editor [name=id]", f"typed-{kind}")
        form.select_option("#editor [name=kind]", kind)
        form.fill("#keywords", "fire smoke")
        form.fill("#lon", "0.25")
        for name, value in fields.items():
            form.fill(f"#{name}", str(value))
        form.click("#create")
        page.until(lambda kind=kind: f"typed-{kind}" in page.state("subscriptions"), f"{kind} is made")
        body = page.body(f"typed-{kind}")
        assert body["kind"] == kind
        assert body["lon"] == 0.25
        assert {name: body[name] for name in fields} == fields
    form.click("#delete")
    page.until(lambda: "typed-nearest" not in page.state("subscriptions"), "it is deleted")
    assert page.http.get("/v1/subscriptions/typed-nearest").status_code == 404


def test_an_edit_belongs_to_the_subscription_it_was_typed_for(page: Opened) -> None:
    for key in ("one", "two"):
        page.put(key, kind="within", region=EVERYWHERE, keywords=["New York", key])
        page.listed(key)
    page.select("one")
    page.page.fill("#keywords", "first")
    page.select("two")
    page.until(lambda: page.body("one")["keywords"] == "first", "the edit is sent although another is shown")
    assert page.body("two")["keywords"] == ["New York", "two"]
    page.page.fill("#editor [name=west]", "-0.75")
    page.until(lambda: page.body("two")["region"][0] == -0.75, "the next edit is the other's")
    assert page.body("two")["keywords"] == ["New York", "two"]
    assert page.body("one")["region"] == EVERYWHERE
    assert page.body("one")["keywords"] == "first"


def at_rest(page: Opened, key: str) -> Any:
    """The subscription once the last step of a drag, which the page knows of, has come to the server."""
    place = page.state("subscriptions")[key]["body"]["lon"]
    page.until(lambda: page.body(key)["lon"] == place, "the last step of the drag is stored")
    return page.body(key)


def test_pins_are_dragged_and_moved_by_keys(page: Opened) -> None:
    page.publish(post("west", "moving van", -0.6), post("east", "moving van", 0.6))
    page.put("mover", kind="nearest", lon=-0.5, lat=0, keywords="van", k=1)
    page.put("area", kind="within", region={"type": "Circle", "coordinates": [0, 0.5], "radius": 9000}, keywords="van")
    page.listed("mover")
    page.listed("area")
    assert page.result("mover") == ["west"]
    drag(page, "mover", 260, 40)
    before = at_rest(page, "mover")
    assert before["lon"] > 0.2
    page.until(lambda: page.result("mover") == ["east"], "the result follows")
    heard = [each[2:] for each in page.state("heard") if each[1] == "mover"]
    assert heard == [["-", "west"], ["+", "east"]]
    page.page.focus(".pin[data-key=mover]")
    page.page.keyboard.press("ArrowUp")
    page.page.keyboard.press("Shift+ArrowRight")
    page.until(lambda: page.body("mover")["lon"] > before["lon"], "keys move it")
    page.until(lambda: page.body("mover")["lat"] > before["lat"], "both of them")
    drag(page, "area", 0, 60)
    page.until(lambda: page.body("area")["region"]["coordinates"][1] < 0.4, "a region moves as a whole")
    assert page.body("area")["region"]["radius"] == 9000


def drawn(page: Opened, shape: str, corners: list[tuple[int, int]]) -> Any:
    """Make a subscription whose region is drawn by clicks."""
    page.page.click("#new")
    page.page.fill("#editor [name=id]", f"drawn-{shape}")
    page.page.fill("#keywords", "fire")
    page.page.click(f"#draw-{shape}")
    box = page.page.locator("#map").bounding_box()
    assert box is not None
    for x, y in corners:
        page.page.mouse.move(box["x"] + x, box["y"] + y, steps=3)
        page.drawn()
        page.page.mouse.click(box["x"] + x, box["y"] + y, delay=20)
        page.drawn()
    page.until(lambda: page.page.inner_text("#hint") == "", "the drawing is done")
    page.page.click("#create")
    page.until(lambda: f"drawn-{shape}" in page.state("subscriptions"), "the subscription is made")
    return page.body(f"drawn-{shape}")["region"]


def test_regions_are_drawn(page: Opened) -> None:
    west, south, east, north = drawn(page, "box", [(60, 60), (180, 150)])
    assert west < east
    assert south < north
    circle = drawn(page, "circle", [(200, 200), (200, 260)])
    assert circle["type"] == "Circle"
    assert 1_000 < circle["radius"] < 200_000
    polygon = drawn(page, "polygon", [(60, 60), (280, 150), (160, 280), (60, 60)])
    assert polygon["type"] == "Polygon"
    assert len(polygon["coordinates"][0]) == 4


def test_sliders_examples_and_sides_follow_the_server(page: Opened) -> None:
    posts = [post(f"dog{n}", "lost dog" if n % 2 else "dog", n / 10) for n in range(6)]
    page.publish(*posts)
    page.put("finder", kind="similar", lon=0, lat=0, keywords="lost dog", delta=1, tau=0.4)
    page.listed("finder")
    assert len(page.result("finder")) == 6
    page.select("finder")
    page.page.click("#examples-panel summary")
    page.page.wait_for_selector("#examples li.plus .bars")
    page.page.fill("#tau", "0.9")
    page.until(lambda: len(page.result("finder")) == 3, "a higher threshold lets fewer in")
    page.page.wait_for_selector("#examples li.minus")
    said = page.http.get("/v1/subscriptions/finder/explain/dog0").json()
    assert f"{said['parts']['score']:.3f}" in page.page.inner_text("#examples li[data-message=dog0] .sum")
    page.page.click("#compare-panel summary")
    page.page.select_option("#compare-left", "finder")
    page.page.click("#compare-copy")
    page.page.wait_for_selector("#compare-right-sliders [name=tau]")
    page.page.fill("#compare-right-sliders [name=tau]", "0.4")
    page.page.fill("#compare-right-sliders [name=delta]", "0.9")
    page.until(lambda: len(page.result("finder-b")) == 6, "the right side is another subscription")
    page.same("finder-b")
    page.until(lambda: page.page.inner_text("#only-right-count") == "3", "three are only on the right")
    for name, n in (("only-left", 0), ("both", 3), ("only-right", 3)):
        page.until(lambda name=name, n=n: page.page.locator(f"#{name} li").count() == n, f"{n} in {name}")


def test_why_and_why_not(page: Opened) -> None:
    page.publish(post("near", "ramen bar", 0.1), post("far", "ramen bar", 0.9))
    page.put("eater", kind="topk", lon=0, lat=0, keywords="ramen", k=1, alpha=0.5)
    page.listed("eater")
    page.select("eater")
    page.page.click("#result li[data-message=near] button")
    for message, sign in (("near", "plus"), ("far", "minus")):
        page.page.wait_for_selector(f"#why-answer .verdict.{sign}")
        said = page.http.get(f"/v1/subscriptions/eater/explain/{message}").json()
        assert said["reason"] in page.page.inner_text("#why-answer")
        assert page.page.locator("#why-answer .bar").count() == 2
        assert page.violations() == []
        page.page.click("#why-close")
        if message == "near":  # the way to any other message, without a map
            page.page.click("#find-panel summary")
            page.page.fill("#search", "ramen")
            page.page.click("#found li[data-message=far] button")


def test_a_message_on_the_map_is_clicked(page: Opened) -> None:
    for key, lon in (("left", -0.9), ("right", -0.5)):
        page.put(key, kind="nearest", lon=lon, lat=-0.7, keywords="between", k=1)
        page.listed(key)
    page.publish(post("between", "between two pins", -0.7, -0.7))
    page.same("left")
    boxes = [page.page.locator(f".pin[data-key={key}]").bounding_box() for key in ("left", "right")]
    x, y = (
        sum(box[side] + box[size] / 2 for box in boxes if box) / 2 for side, size in (("x", "width"), ("y", "height"))
    )

    def opens() -> bool:
        page.page.mouse.click(x, y)
        page.drawn()
        return page.page.locator("#why[open]").count() == 1

    page.until(opens, "the message is drawn, and a click on it asks why")
    assert page.page.inner_text("#why-message") == "between two pins"
    page.page.keyboard.press("Escape")


def test_the_log_is_replayed(page: Opened) -> None:
    page.put("past", kind="nearest", lon=0, lat=0, keywords="tune", k=2)
    for n in range(8):
        page.publish(post(f"tune{n}", "tune", 0.8 - n / 10, ts=TS + 1_000 * n))
    page.listed("past")
    page.select("past")
    page.page.click("#replay-panel summary")
    page.page.select_option("#speed", "100")
    page.page.click("#play")
    page.until(lambda: page.page.inner_text("#replay-status").startswith("14 of 14"), "all is played")
    assert page.page.locator("#replayed li").count() == 14
    page.page.evaluate(
        "() => { const at = document.getElementById('replay-at'); at.value = 1; at.dispatchEvent(new Event('input')); }"
    )
    assert page.page.inner_text("#replayed").split() == [
        "+",
        "entered",
        "tune",
        *page.page.inner_text("#replayed small").split(),
    ]
    page.page.click("#replay-end")
    assert page.page.locator("#replayed li").count() == 0


SOCKETS = """
    window.sockets = [];
    window.WebSocket = class extends WebSocket { constructor(address) { super(address); sockets.push(this); } };
"""


def told(page: Opened, key: str, after: str) -> list[list[str]]:
    """What the server told a subscription, in the form of `heard`."""
    rows: list[list[str]] = []
    while True:
        answer = page.http.get(f"/v1/subscriptions/{key}/updates", params={"after": after}).json()
        rows += [[row[0], row[1], str(row[2])] for row in answer["u"]]
        if not answer["more"]:
            return rows
        after = answer["c"]


def heard(page: Opened, key: str) -> list[list[str]]:
    return [each[1:] for each in page.state("heard") if each[1] == key]


def test_nothing_is_missed_or_doubled_when_the_network_is_cut(browser: Browser, tmp_path: Path) -> None:
    process = Process(tmp_path, *PLANE)
    port = process.address.rpartition(":")[2]
    try:
        with opened(browser, process.address, init=SOCKETS) as page:
            starts = {
                "a": page.put("a", kind="within", region=[0, 0, 100, 100], keywords="x"),
                "b": page.put("b", kind="nearest", lon=50, lat=50, keywords="x", k=5),
                "c": page.put("c", kind="topk", lon=50, lat=50, keywords="x", k=5),
            }
            for key in starts:
                page.listed(key)
            for n in range(60):
                page.publish(post(f"x{n}", "x", n * 37 % 100, n * 61 % 100, TS + n))
                if n == 5:
                    page.context.set_offline(True)
                elif n == 10:
                    page.context.set_offline(False)
                elif n == 20:
                    process.kill()
                    page.until(lambda: page.state("connection") != "open", "the page notices")
                    process = Process(tmp_path, *PLANE, "--port", port)
                elif n > 30 and n % 3 == 0:
                    page.page.evaluate("() => sockets.at(-1).close()")
            for key, start in starts.items():
                page.until(
                    lambda key=key, start=start: len(heard(page, key)) >= len(told(page, key, start)),
                    f"{key} has heard all",
                )
            page.put("last", kind="within", region=[0, 0, 100, 100], keywords="end")
            page.listed("last")  # what is heard of it comes after all that was on its way
            for key, start in starts.items():
                assert heard(page, key) == told(page, key, start)
                assert page.result(key) == page.served(key)
            assert page.state("connection") == "open"
    finally:
        process.kill()


def test_another_history_begins_again_with_results(browser: Browser, tmp_path: Path) -> None:
    process = Process(tmp_path / "one", *PLANE)
    port = process.address.rpartition(":")[2]
    try:
        with opened(browser, process.address) as page:
            for key in ("kept", "lost"):
                page.put(key, kind="within", region=[0, 0, 100, 100], keywords="x")
                page.listed(key)
            page.publish(post("old", "x", 1, 1))
            page.until(lambda: page.result("kept") == ["old"], "the message arrives")
            process.kill()
            process = Process(tmp_path / "two", *PLANE, "--port", port)
            page.put("kept", kind="within", region=[0, 0, 100, 100], keywords="x")
            page.publish(post("new", "x", 2, 2))
            page.until(lambda: page.result("kept") == ["new"], "the result is that of the new history")
            page.until(lambda: "lost" not in page.state("subscriptions"), "what is not there is not listed")
            page.publish(post("newer", "x", 3, 3))
            page.until(lambda: page.result("kept") == ["new", "newer"], "updates go on")
    finally:
        process.kill()


CLIENT = """async address => {
    const { Problem, connect } = await import(address + "/nearcast.js");
    const client = connect({ url: address }), heard = [];
    const until = async holds => {
        for (let n = 0; !holds(); n++) {
            if (n === 6_000) throw new Error(`not within a minute: ${holds}`);
            await new Promise(done => setTimeout(done, 10));
        }
    };
    await client.subscribe({ id: "js", kind: "nearest", lon: 50, lat: 50, keywords: "y", k: 1 });
    const y = id => ({ id, lon: 50, lat: 50, text: "y", ts: 1 });
    const first = (await client.publish(y("y1"))).cursor;
    const many = await client.publish([y("y2"), { id: "y3", lon: 50, text: "y" }]);
    const noted = (row, { messages }) => [row[1], row[2], messages[row[2]]?.text ?? null];
    const note = (rows, frame) => heard.push(...rows.map(row => noted(row, frame)));
    const detach = client.attach("js", { updates: note }, first);
    await until(() => heard.length === 2);
    const resumed = heard.splice(0);
    detach();
    const ends = [];
    const snapshot = frame => heard.push(frame.results), end = reason => ends.push(reason);
    client.attach("js", { snapshot, updates: note, end });
    await until(() => heard.length === 1);
    await client.move("js", { lon: 51, lat: 51 });
    const { in_result, reason } = await client.explain("js", "y1");
    const { results } = await client.results("js");
    await client.unsubscribe("js");
    await until(() => ends.length === 1);
    const missing = [];
    client.attach("nobody", { end: reason => missing.push(reason) });
    await until(() => missing.length === 1);
    const bad = { id: "bad", kind: "nearest", lon: 0, lat: 0, keywords: "y", k: 0 };
    const problem = await client.subscribe(bad).catch(error => error);
    client.close();
    return { resumed, heard, many, in_result, reason, results, ends, missing, state: client.state,
        problem: [problem instanceof Problem, problem.status, problem.field, problem.message] };
}"""


def test_the_client_alone(browser: Browser, plane: str) -> None:
    with opened(browser, plane) as page:
        got = page.page.evaluate(CLIENT, plane)
    assert got["resumed"] == [["-", "y1", None], ["+", "y2", "y"]]
    assert got["heard"] == [[["y2", 0]]]
    assert got["many"]["accepted"] == 1
    assert got["many"]["rejects"] == [{"row": 1, "field": "lat", "reason": "lat is required, got None"}]
    assert got["in_result"] is False
    assert got["reason"].startswith("not in the result")
    assert [message for message, _ in got["results"]] == ["y2"]
    assert got["ends"] == ["deleted"]
    assert got["missing"] == ["unknown-id"]
    assert got["problem"] == [True, 422, "k", "k must be >= 1, got 0"]
    assert got["state"] == "closed"


def test_a_server_with_keys_is_asked_with_one(browser: Browser, tmp_path: Path) -> None:
    process = Process(tmp_path, *PLANE)
    try:
        keys, given = f"{process.address}/v1/admin/keys", {}
        for name, scopes in (("boss", ["admin"]), ("ann", ["subscribe:own"])):
            made = httpx.post(keys, json={"name": name, "scopes": scopes}, headers=given)
            given = given or {"Authorization": f"Bearer {made.json()['key']}"}
        with opened(browser, process.address, key=made.json()["key"], init=SOCKETS) as page:
            page.http.headers.update(given)
            page.put("secret", kind="within", region=[0, 0, 100, 100], keywords="x")
            page.listed("secret")
            page.publish(post("x", "x", 1, 1))
            page.until(lambda: page.result("secret") == ["x"], "updates come")
            listed = page.http.get("/v1/admin/keys").json()["keys"]
            (id,) = (each["id"] for each in listed if each["name"] == "ann")
            assert page.http.delete(f"/v1/admin/keys/{id}").status_code == 204
            page.page.evaluate("() => sockets.at(-1).close()")
            page.page.wait_for_selector("#key-dialog[open]")
    finally:
        process.stop()


def test_planes_are_drawn_on_a_canvas(browser: Browser, plane: str) -> None:
    with opened(browser, plane) as page:
        page.put("flat", kind="nearest", lon=20, lat=20, keywords="z", k=1)
        page.publish(post("z1", "z", 25, 20), post("z2", "z", 75, 20))
        page.listed("flat")
        assert page.page.locator("#map > canvas").count() == 1
        page.put("crowd", kind="within", region=[0, 0, 100, 100], keywords="crowd")
        page.listed("crowd")
        page.publish(*(post(f"crowd{n}", "crowd", 90, 90, TS + n) for n in range(190)))
        page.publish(*(post(f"other{n}", "other", 90, 90, TS + 190 + n) for n in range(30)))
        page.publish(post("z3", "z", 25, 20, TS + 300), post("z4", "z", 75, 20, TS + 301))
        page.same("crowd")
        assert len(page.result("crowd")) < 190  # a count of 200 lets the oldest go, silently
        drag(page, "flat", 250, 0)
        page.until(lambda: page.body("flat")["lon"] > 50, "the pin moves")
        page.until(lambda: page.result("flat") == ["z4"], "the result follows")
        page.page.click("#new")
        page.page.fill("#editor [name=id]", "flat-box")
        page.page.fill("#keywords", "z")
        page.page.click("#draw-box")
        box = page.page.locator("#map > canvas").bounding_box()
        assert box is not None
        for x, y in ((0.3, 0.3), (0.6, 0.7)):
            page.page.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])
        page.page.click("#create")
        page.until(lambda: "flat-box" in page.state("subscriptions"), "the box is drawn")
        assert len(page.body("flat-box")["region"]) == 4
        assert page.violations() == []


def test_axe_finds_nothing_serious(page: Opened) -> None:
    page.put("shown", kind="similar", lon=0, lat=0, keywords="axe dog", delta=0.5, tau=0.1)
    page.listed("shown")
    page.publish(post("axe", "axe dog"))
    page.select("shown")
    for panel in ("examples", "compare", "replay", "publish", "find"):
        page.page.click(f"#{panel}-panel summary")
    page.page.wait_for_selector("#examples li")
    page.page.wait_for_selector("#feed li")
    page.page.emulate_media(reduced_motion="reduce")
    assert page.page.evaluate("getComputedStyle(document.querySelector('#feed li')).animationName") == "none"
    for theme in ("light", "dark"):
        if page.page.get_attribute("html", "data-theme") != theme:
            page.page.click("#theme")
        assert page.violations() == [], theme
    assert page.page.evaluate("document.documentElement.scrollHeight <= innerHeight"), "only its lists scroll"


def test_a_phone_has_a_bottom_sheet(browser: Browser, plane: str) -> None:
    with opened(
        browser,
        plane,
        color_scheme="dark",
        reduced_motion="reduce",
        viewport={"width": 390, "height": 800},
        has_touch=True,
    ) as page:
        page.put("phone", kind="nearest", lon=0, lat=0, keywords="call", k=1)
        page.listed("phone")
        heights = []
        for _ in range(3):
            page.page.click("#grip")
            heights.append(page.page.evaluate("document.getElementById('sheet').clientHeight"))
        assert heights[1] < heights[2] < heights[0]
        assert page.page.get_attribute("html", "data-theme") == "dark"
        assert page.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.violations() == []


def test_a_screen_reader_gets_a_sum_now_and_then(page: Opened) -> None:
    page.put("spoken", kind="within", region=EVERYWHERE, keywords="bell")
    page.listed("spoken")
    page.page.evaluate("""() => { window.said = [];
        const status = document.getElementById("feed-status"), say = () => [performance.now(), status.textContent];
        new MutationObserver(() => said.push(say())).observe(status, { childList: true }); }""")
    for n in range(10):
        page.publish(post(f"bell{n}", "bell"))
    page.until(lambda: len(page.result("spoken")) == 10, "all arrive")
    page.until(lambda: sum(int(text.split()[0]) for _, text in page.page.evaluate("said")) >= 10, "all are counted")
    said = page.page.evaluate("said")
    assert all(later - sooner > 4_900 for (sooner, _), (later, _) in itertools.pairwise(said))
    for _, text in said:
        assert re.fullmatch(r"\d+ updates?\. Last: .+ (entered|left) \S+\.", text)


def test_what_expires_leaves_without_a_word(page: Opened) -> None:
    page.put("old", kind="within", region=EVERYWHERE, keywords="news")
    page.listed("old")
    page.publish(post("yesterday", "news"))
    page.until(lambda: page.result("old") == ["yesterday"], "it arrives")
    page.publish(post("today", "news", ts=TS + 7_200_000))
    page.until(lambda: page.result("old") == ["today"], "the older one is gone")
    assert page.served("old") == ["today"]
    assert [each[2:] for each in page.state("heard") if each[1] == "old"] == [["+", "yesterday"], ["+", "today"]]
    page.until(lambda: page.state("messages") == 1, "the map shows what is live")
