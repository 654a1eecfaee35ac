"""What is pushed: attach, resume, gaps, ends, digests; over WebSocket and server-sent events."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import websockets.sync.client as sockets
from websockets.exceptions import ConnectionClosed

from nearcast.server.push.delivery import Delivery, Pace
from nearcast.server.push.net_change import net
from server.serving import NEAREST, WITHIN, Running, Talk, running, wait


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("push"), heartbeat_s=0.5) as server:
        yield server


clock = itertools.count(1)


def told(frame: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(row[0], row[1], row[2]) for row in frame["u"]]


def test_a_talk_from_hello_to_end(server: Running) -> None:
    server.put("t1", WITHIN)
    server.publish("old", next(clock))
    talk = server.socket()
    assert talk.welcome["epoch"] == server.service.backend.state.epoch
    talk.say({"attach": ["t1"], "after": "results"})
    assert talk.hear("attached")["attached"] == ["t1"]
    snapshot = talk.hear("snapshot")
    assert (snapshot["snapshot"], snapshot["results"]) == ("t1", [["old", None]])
    assert snapshot["messages"]["old"]["text"] == "tram"
    cursor = server.publish("new", next(clock))
    frame = talk.hear("u")
    assert (told(frame), frame["c"]) == ([("t1", "+", "new")], cursor)
    assert frame["messages"]["new"]["lon"] == 1.0
    talk.say({"ack": frame["c"]})
    talk.say({"ping": 5})
    assert talk.hear("pong") == {"pong": 5}
    talk.say({"move": {"id": "t1", "region": [8, 8, 9, 9]}})
    assert {row[:2] for row in told(talk.hear("u"))} == {("t1", "-")}
    server.http.delete("/v1/subscriptions/t1")
    assert talk.hear("end") == {"end": "t1", "reason": "deleted"}
    assert talk.hear("progress")["progress"] == server.service.backend.state.cursor()
    talk.close()


def test_a_cursor_resumes_exactly(server: Running) -> None:
    start = server.put("r1", WITHIN)
    names = [f"r{n}" for n in range(5)]
    cursors = [server.publish(name, next(clock)) for name in names]
    for cut in range(6):
        talk = server.socket()
        talk.say({"attach": ["r1"], "after": start if cut == 0 else cursors[cut - 1]})
        talk.hear("attached")
        if cut < 5:
            frame = talk.hear("u")
            assert [row[2] for row in frame["u"]] == names[cut:]
            assert frame["c"] == cursors[-1]
        else:
            talk.hear("progress")
        talk.close()
    server.http.delete("/v1/subscriptions/r1")
    talk = server.socket()
    talk.say({"attach": ["r1"], "after": cursors[3]})
    talk.hear("attached")
    assert told(talk.hear("u")) == [("r1", "+", "r4")]
    assert talk.hear("end") == {"end": "r1", "reason": "deleted"}
    server.put("r1", NEAREST)  # another one under the same name: what was known of the first does not hold
    talk.say({"attach": ["r1"], "after": cursors[3]})
    talk.hear("attached")
    gap = talk.hear("gap")
    assert (gap["gap"], gap["from"]) == ("r1", cursors[3])
    assert talk.hear("snapshot")["cursor"] == gap["to"]
    talk.close()


def test_mistakes_are_answered_and_the_talk_goes_on(server: Running) -> None:
    server.put("m1", WITHIN)
    talk = server.socket()
    for frame, code in (
        ({"attach": ["nobody"], "after": "now"}, "unknown-id"),
        ({"attach": ["m1"], "after": "other.5"}, "unknown-cursor"),
        ({"attach": "m1"}, "invalid-input"),
        ({"attach": ["m1"], "after": 7}, "invalid-input"),
        ({"nothing": 1}, "invalid-input"),
        ({"move": {"id": "nobody", "lon": 1, "lat": 1}}, "unknown-id"),
        ({"ack": "x"}, "unknown-cursor"),
        ([1], "invalid-input"),
        ("{", "malformed"),
        ("", "malformed"),
    ):
        talk.say(frame)
        assert talk.hear("error")["error"]["code"] == code, frame
    talk.say({"attach": ["m1"], "after": "now"})
    talk.hear("attached")
    talk.close()
    for hello in ('{"hello": 2}', "[]", "nonsense", '{"hello": 1, "every": -1}', '{"hello": 1, "token": "nc_x_y"}'):
        with sockets.connect(server.address.replace("http", "ws") + "/v1/ws") as socket:
            socket.send(hello)
            assert "error" in json.loads(socket.recv(60))
            with pytest.raises(ConnectionClosed):
                socket.recv(60)


def test_the_net_change_gives_the_same_result() -> None:
    rng = random.Random(5)
    for _ in range(300):
        before = {id: {m for m in range(6) if rng.random() < 0.5} for id in "ab"}
        now = {id: set(own) for id, own in before.items()}
        rows: list[list[Any]] = []
        for _ in range(rng.randint(0, 25)):
            id, message = rng.choice("ab"), rng.randrange(6)
            sign = "-" if message in now[id] else "+"
            (now[id].discard if sign == "-" else now[id].add)(message)
            rows.append([id, sign, message, None, 0])
        netted = net(rows)
        after = {id: set(own) for id, own in before.items()}
        for id, sign, message, _, _ in netted:
            assert (message in after[id]) == (sign == "-")
            (after[id].discard if sign == "-" else after[id].add)(message)
        assert after == now
        for id in "ab":
            signs = [row[1] for row in netted if row[0] == id]
            assert signs == sorted(signs, key="-+".index)
        assert sorted(net([*net(rows[:10]), *net(rows[10:])])) == sorted(netted)


def heard_until(talk: Talk, cursor: str) -> list[tuple[str, str, str]]:
    """The net change up to a cursor, of frames that are net changes; a slow machine may need several."""
    rows: list[list[Any]] = []
    at = ""
    while at != cursor:
        frame = talk.hear("u")
        assert net(frame["u"]) == frame["u"]
        rows, at = rows + frame["u"], frame["c"]
    return told({"u": net(rows)})


def test_when_the_next_frame_may_go() -> None:
    digest, throttle = Pace(Delivery(every=60.0)), Pace(Delivery(max_per=(2, 10.0)))
    assert (digest.wait(0.0), throttle.wait(0.0)) == (0.0, 0.0)
    for now in (1.0, 4.0):
        digest.sent(now)
        throttle.sent(now)
    assert (digest.wait(5.0), throttle.wait(5.0)) == (59.0, 6.0)
    assert (digest.wait(64.0), throttle.wait(11.0)) == (0.0, 0.0)
    throttle.sent(11.0)
    assert throttle.wait(11.0) == 3.0
    both = Pace(Delivery(every=1.0, max_per=(2, 10.0)))
    both.sent(1.0)
    assert both.wait(1.5) == 0.5
    both.sent(2.0)
    assert both.wait(3.5) == 7.5


def test_a_digest_tells_the_net_change_and_a_cursor_that_holds(server: Running) -> None:
    start = server.put("d1", {**NEAREST, "k": 1, "keywords": "ferry"})
    talk = server.socket(every=1.0)
    talk.say({"attach": ["d1"], "after": start})
    talk.hear("attached")
    first = server.publish("d0", next(clock), 5.0, "ferry")
    assert heard_until(talk, first) == [("d1", "+", "d0")]
    for n, lon in enumerate((4.0, 3.0, 2.0)):
        last = server.publish(f"d{n + 1}", next(clock), lon, "ferry")
    assert heard_until(talk, last) == [("d1", "-", "d0"), ("d1", "+", "d3")]
    talk.close()
    talk = server.socket(max_per=[1, 0.8])
    talk.say({"attach": ["d1"], "after": "now"})
    talk.hear("attached")
    last = server.publish("d4", next(clock), 1.9, "ferry")
    assert heard_until(talk, last) == [("d1", "-", "d3"), ("d1", "+", "d4")]
    server.publish("d5", next(clock), 1.8, "ferry")
    last = server.publish("d6", next(clock), 1.7, "ferry")
    assert heard_until(talk, last) == [("d1", "-", "d4"), ("d1", "+", "d6")]
    talk.close()
    talk = server.socket(quiet=0.3)
    talk.say({"attach": ["d1"], "after": "now"})
    talk.hear("attached")
    assert talk.hear("quiet") == {"quiet": "d1", "seconds": 0.3}
    talk.close()


def test_server_sent_events_resume_by_their_id(server: Running) -> None:
    start = server.put("s1", WITHIN)
    first = server.publish("s-a", next(clock))
    lines = read_events(server, {"subscriptions": "s1", "after": start}, {}, 2)
    assert lines[0]["data"]["attached"] == ["s1"]
    assert told(lines[1]["data"]) == [("s1", "+", "s-a")]
    assert lines[1]["id"] == first
    server.publish("s-b", next(clock))
    lines = read_events(server, {"subscriptions": "s1", "after": start}, {"Last-Event-ID": first}, 2)
    assert told(lines[1]["data"]) == [("s1", "+", "s-b")]
    gone = server.http.get("/v1/stream?subscriptions=s1&after=old.1")
    assert (gone.status_code, gone.json()["resync"]) == (410, ["/v1/subscriptions/s1/results"])
    assert server.http.get("/v1/stream?subscriptions=nobody").status_code == 404
    assert server.http.get("/v1/stream").status_code == 422
    assert server.http.get("/v1/stream?subscriptions=s1&every=never").status_code == 422


def read_events(server: Running, params: dict[str, str], headers: dict[str, str], n: int) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    with server.http.stream("GET", "/v1/stream", params=params, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        event: dict[str, Any] = {}
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if not line:
                events += [event] if event.get("event") != "progress" and event else []
                event = {}
                if len(events) == n:
                    return events
            elif name == "data":
                event["data"] = json.loads(value)
            elif name:
                event[name] = value
    return events


def test_a_slow_consumer_gets_the_net_change_and_a_snapshot(tmp_path: Path) -> None:
    with running(tmp_path, pending_bytes=20_000, unread_s=600.0, window_count=40) as server:
        server.put("within", WITHIN)
        server.put("nearest", {**NEAREST, "k": 2})
        slow, fast = server.socket(), server.socket()
        for talk in (slow, fast):
            talk.say({"attach": ["within", "nearest"], "after": "now"})
            talk.hear("attached")
        text = "tram " + "!" * 5_000  # bodies fill the socket's buffers soon
        number = 0
        while not server.http.get("/metrics").text.count("nearcast_gaps_total 1.0"):
            rows = [{"id": f"{number + n}", "lon": 1, "lat": 1, "text": text, "ts": number + n} for n in range(20)]
            assert server.http.post("/v1/messages", json=rows).json()["accepted"] == 20
            number += 20
            assert told(fast.hear("u"))
            assert number < 4_000
        results: dict[str, set[str]] = {"within": set(), "nearest": set()}
        seen_gap = False
        final = {id: server.http.get(f"/v1/subscriptions/{id}/results").json() for id in results}
        while True:
            frame = json.loads(slow.socket.recv(60))
            if "u" in frame:
                for id, sign, message, _, _ in frame["u"]:
                    if sign == "+":
                        assert message not in results[id]
                        results[id].add(message)
                    else:
                        results[id].remove(message)
            elif "gap" in frame:
                seen_gap = True
            elif "snapshot" in frame:
                results[frame["snapshot"]] = {message for message, _ in frame["results"]}
                if frame["cursor"] == final["within"]["cursor"]:
                    break
        assert seen_gap
        assert results["within"] == {message for message, _ in final["within"]["results"]}
        assert results["nearest"] == {message for message, _ in final["nearest"]["results"]}
        slow.close()
        fast.close()


def test_a_client_that_never_reads_is_closed(tmp_path: Path) -> None:
    with running(tmp_path, unread_s=0.3, window_count=40) as server:
        server.put("within", WITHIN)
        talk = server.socket()
        talk.say({"attach": ["within"], "after": "now"})
        talk.hear("attached")
        text = "tram " + "!" * 20_000
        until = time.monotonic() + 120
        number = 0
        while "nearcast_closed_slow_total 1.0" not in server.http.get("/metrics").text:
            assert time.monotonic() < until
            rows = [{"id": f"{number + n}", "lon": 1, "lat": 1, "text": text, "ts": number + n} for n in range(10)]
            server.http.post("/v1/messages", json=rows)
            number += 10
        with pytest.raises(ConnectionClosed) as closed:
            list(iter(lambda: talk.socket.recv(60), None))
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4008
        talk.close()
        wait(lambda: not server.service.connections)
