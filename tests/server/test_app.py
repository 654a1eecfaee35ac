"""HTTP as a conversation: what is sent, what is answered, errors included."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from server.serving import NEAREST, WITHIN, Running, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("app")) as server:
        yield server


@pytest.fixture
def http(server: Running) -> httpx.Client:
    return server.http


def problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert body["status"] == status
    return body


def test_a_message_is_published_and_told(server: Running, http: httpx.Client) -> None:
    made = http.put("/v1/subscriptions/first", json=WITHIN)
    assert made.status_code == 201
    start = made.json()["cursor"]
    told = server.publish("a1", 10)
    updates = http.get("/v1/subscriptions/first/updates", params={"after": start}).json()
    assert updates["u"] == [["first", "+", "a1", None, 10]]
    assert updates["messages"]["a1"]["text"] == "tram"
    assert updates["c"] == told
    assert http.get("/v1/subscriptions/first/updates", params={"after": told}).json()["u"] == []
    results = http.get("/v1/subscriptions/first/results").json()
    assert results["results"][0] == ["a1", None]
    why = http.get("/v1/subscriptions/first/explain/a1").json()
    assert (why["in_result"], why["parts"]["inside region"]) == (True, True)


def test_a_message_changes_and_is_withdrawn(server: Running, http: httpx.Client) -> None:
    query = {**WITHIN, "where": "price < 50"}
    start = http.put("/v1/subscriptions/cheap", json=query).json()["cursor"]
    body = {"id": "c1", "lon": 1, "lat": 1, "text": "tram", "ts": 15}
    for path, price in (("/v1/messages", 40), ("/v1/messages/c1", 90), ("/v1/messages/c1", 45)):
        send = http.post if path == "/v1/messages" else http.put
        assert send(path, json={**body, "fields": {"price": price}}).status_code in (200, 202)
    assert http.get("/v1/subscriptions/cheap/results").json()["messages"]["c1"]["fields"] == {"price": 45}
    near = {**body, "id": "c9", "fields": {"price": 3}}
    assert "cheap" in http.post("/v1/match", json=near).json()["subscriptions"]
    assert "cheap" not in http.post("/v1/match", json={**near, "fields": {"price": 50}}).json()["subscriptions"]
    assert http.delete("/v1/messages/c1").status_code == 200
    assert problem(http.delete("/v1/messages/c1"), 404)["field"] == "id"
    told = http.get("/v1/subscriptions/cheap/updates", params={"after": start}).json()["u"]
    assert [(sign, message) for _, sign, message, *_ in told] == [("+", "c1"), ("-", "c1"), ("+", "c1"), ("-", "c1")]
    lines = [{"event": "update", **body, "id": "c2", "fields": {"price": 1}}, {"event": "retract", "id": "c2"}]
    answer = http.post("/v1/events", json=lines).json()
    assert (answer["accepted"], answer["rejects"]) == (2, [])


def test_messages_come_as_lines_arrays_arrow_and_features(http: httpx.Client) -> None:
    row = {"lon": 1, "lat": 1, "text": "bus", "ts": 20}
    lines = "\n".join(json.dumps({"id": f"l{n}", **row}) for n in range(3)) + "\n"
    answer = http.post("/v1/messages", content=lines, headers={"content-type": "application/x-ndjson"}).json()
    assert answer["accepted"] == 3
    bad = '{"id": "l9", "lon": 1}\n{"id": "l8", "lon": 1, "lat": 1, "text": "x", "ts": 20}\nnonsense\n'
    answer = http.post("/v1/messages", content=bad, headers={"content-type": "application/jsonl"}).json()
    assert answer["accepted"] == 1
    assert [(reject["row"], reject["field"]) for reject in answer["rejects"]] == [(0, "lat"), (2, "row")]
    feature = {"type": "Feature", "id": "f1", "geometry": {"type": "Point", "coordinates": [1, 2]}}
    feature["properties"] = {"keywords": ["new york"], "kind": "tweet"}
    assert http.post("/v1/messages", json=[feature, {"id": "f2", **row}]).json()["accepted"] == 2
    sink = pa.BufferOutputStream()
    table = pa.table({"id": ["r1", "r2"], "lon": [1.0, 1.0], "lat": [1.0, 91.0], "text": ["a", "b"], "more": [1, 2]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    kind = {"content-type": "application/vnd.apache.arrow.stream"}
    assert http.post("/v1/messages", content=bytes(sink.getvalue()), headers=kind).json()["accepted"] == 2
    problem(http.post("/v1/messages", content=b"no arrow", headers=kind), 400)


def test_what_cannot_be_honoured_is_a_problem(server: Running, http: httpx.Client) -> None:
    told = problem(http.post("/v1/messages", json={"id": "x", "lon": "east", "lat": 1, "text": "a"}), 422)
    assert (told["field"], told["rule"], told["value"]) == ("lon", "must be a number", "'east'")
    server.publish("twice", 30)
    body = {"id": "twice", "lon": 1, "lat": 1, "text": "a", "ts": 30}
    assert problem(http.post("/v1/messages", json=body), 409)["field"] == "id"
    assert problem(http.put("/v1/subscriptions/x", json={**WITHIN, "kind": "between"}), 422)["field"] == "kind"
    assert problem(http.put("/v1/subscriptions/x", json={**WITHIN, "id": "y"}), 422)["field"] == "id"
    assert problem(http.put("/v1/subscriptions/x", json=[1]), 422)["field"] == "subscription"
    problem(http.post("/v1/messages", content=b"{"), 400)
    problem(http.post("/v1/messages", content=b"{}", headers={"content-type": "text/csv"}), 415)
    problem(http.get("/v1/subscriptions/nobody"), 404)
    problem(http.get("/v1/subscriptions/nobody/results"), 404)
    problem(http.delete("/v1/subscriptions/nobody"), 404)
    for digits in ("\u00b2", "\u0665", "9" * 5_000, "-7", "--7", "007"):  # some are digits to Python, and no number
        problem(http.get(f"/v1/subscriptions/{digits}"), 404)
    problem(http.get("/v1/subscriptions?limit=none"), 422)
    problem(http.get("/v1/nothing"), 404)
    problem(http.put("/v1/messages"), 405)


def test_a_cursor_that_is_unknown_is_gone(http: httpx.Client, server: Running) -> None:
    server.put("gone", WITHIN)
    for cursor in ("other.1", "nonsense", f"{server.service.backend.state.epoch}.999999"):
        answer = http.get("/v1/subscriptions/gone/updates", params={"after": cursor})
        told = problem(answer, 410)
        assert told["code"] == "unknown-cursor"
        assert answer.headers["link"] == f'<{told["resync"][0]}>; rel="resync"'
        assert http.get(told["resync"][0]).status_code == 200
    assert problem(http.get("/v1/subscriptions/gone/updates"), 422)["field"] == "after"


def test_subscriptions_are_replaced_moved_listed_and_ended(server: Running, http: httpx.Client) -> None:
    start = server.put("s0", NEAREST)
    server.publish("near", 40, 1.0)
    assert http.put("/v1/subscriptions/s0", json={**NEAREST, "keywords": "boat"}).status_code == 200
    assert http.get("/v1/subscriptions/s0").json()["keywords"] == "boat"
    told = http.get("/v1/subscriptions/s0/updates", params={"after": start}).json()["u"]
    signs = {(row[1], row[2]) for row in told}
    assert {("+", "near"), ("-", "near")} <= signs
    moved = http.patch("/v1/subscriptions/s0", json={"lon": 4, "lat": 4})
    assert moved.status_code == 200
    assert http.get("/v1/subscriptions/s0").json()["lon"] == 4.0
    assert problem(http.patch("/v1/subscriptions/s0", json={"lon": 4}), 422)["field"] == "lat"
    lines = "\n".join(json.dumps({"id": f"bulk{n}", **WITHIN}) for n in range(5))
    kind = {"content-type": "application/x-ndjson"}
    assert http.post("/v1/subscriptions", content=lines, headers=kind).json()["accepted"] == 5
    again = http.post("/v1/subscriptions", content=lines, headers=kind).json()
    assert (again["accepted"], len(again["rejects"])) == (0, 5)
    listed, following = [], None
    while True:
        params = {"limit": 3, **({"next": following} if following else {})}
        page = http.get("/v1/subscriptions", params=params).json()
        assert len(page["subscriptions"]) <= 3
        listed += [each["id"] for each in page["subscriptions"]]
        following = page["next"]
        if following is None:
            break
    assert len(listed) == len(set(listed))
    assert {"s0", *(f"bulk{n}" for n in range(5))} <= set(listed)
    assert http.delete("/v1/subscriptions/s0").status_code == 200
    problem(http.get("/v1/subscriptions/s0"), 404)
    ended = http.get("/v1/subscriptions/s0/updates", params={"after": start}).json()["ended"]
    assert ended == [["s0", "deleted"]]


def test_events_of_all_sorts_are_applied_in_order(http: httpx.Client) -> None:
    events = [
        {"event": "subscribe", "id": "e1", **WITHIN},
        {"id": "em1", "lon": 1, "lat": 1, "text": "tram", "ts": 50},
        {"event": "unsubscribe", "id": "e1"},
        {"event": "subscribe", "id": "e1", **NEAREST},
        {"event": "move", "id": "e1", "lon": 3, "lat": 3},
        {"event": "unsubscribe", "id": "nobody"},
        {"event": "advance", "ts": 60},
    ]
    lines = "\n".join(map(json.dumps, events))
    answer = http.post("/v1/events", content=lines, headers={"content-type": "application/x-ndjson"}).json()
    assert (answer["accepted"], [reject["row"] for reject in answer["rejects"]]) == (6, [5])
    assert http.get("/v1/subscriptions/e1").json()["kind"] == "nearest"


def test_a_key_makes_a_request_happen_once(http: httpx.Client) -> None:
    body = {"id": "once", "lon": 1, "lat": 1, "text": "a", "ts": 70}
    first, second = (http.post("/v1/messages", json=body, headers={"Idempotency-Key": "k1"}) for _ in range(2))
    assert first.json() == second.json()
    other = http.post("/v1/messages", json={**body, "id": "other"}, headers={"Idempotency-Key": "k1"})
    assert problem(other, 422)["code"] == "idempotency-key"


def test_a_query_is_previewed_and_one_that_tells_too_much_is_refused(tmp_path: Path) -> None:
    with running(tmp_path, quotas={"hits_per_hour": 100}) as server:
        for n in range(10):
            server.publish(f"m{n}", n * 1000)
        told = server.http.post("/v1/preview", json=WITHIN).json()
        assert told["matches"] == 10
        assert told["per_hour"] > 3_000
        assert problem(server.http.put("/v1/subscriptions/w", json=WITHIN), 409)["field"] == "hits_per_hour"
        many = server.http.post("/v1/subscriptions", json=[{"id": "w", **WITHIN}])
        assert problem(many, 409)["code"] == "too-broad"
        assert server.http.put("/v1/subscriptions/w", json={**WITHIN, "keywords": "boat"}).status_code == 201
        assert problem(server.http.post("/v1/preview", json={"kind": "within"}), 422)["field"] == "region"


def test_limits_are_named(tmp_path: Path) -> None:
    with running(tmp_path, max_rows=3, max_body_bytes=1000, quotas={"messages_per_second": 2}) as server:
        row = {"lon": 1, "lat": 1, "text": "a"}
        assert problem(server.http.post("/v1/messages", json=[{"id": str(n), **row} for n in range(4)]), 413)
        assert problem(server.http.post("/v1/messages", json={"id": "a" * 1000, **row}), 413)["field"] == "body"
        server.publish("a", 1)
        server.http.post("/v1/messages", json=[{"id": str(n), **row} for n in range(3)])
        refused = server.http.post("/v1/messages", json={"id": "b", **row})
        assert problem(refused, 429)["field"] == "messages_per_second"
        assert int(refused.headers["retry-after"]) >= 1


def test_health_metrics_and_pages(server: Running, http: httpx.Client) -> None:
    assert http.get("/healthz").json() == {"status": "ok"}
    assert http.get("/readyz").status_code == 503  # nobody compiled kernels
    server.service.is_warm = True
    assert http.get("/readyz").status_code == 200
    text = http.get("/metrics").text
    assert "nearcast_sync_seconds_bucket" in text
    page = http.get("/openapi.json").json()
    assert page["openapi"] == "3.1.0"
    for path, methods in page["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], (path, method)
    assert "ws" in http.get("/asyncapi.json").json()["channels"]


def test_hosts_and_origins_are_checked(http: httpx.Client, server: Running) -> None:
    assert problem(http.get("/healthz", headers={"Host": "evil.example"}), 421)["field"] == "Host"
    assert problem(http.get("/healthz", headers={"Origin": "http://evil.example"}), 403)["field"] == "Origin"
    assert http.get("/healthz", headers={"Origin": server.address}).status_code == 200


KEPT = {
    "kept": NEAREST,
    "circle": {**WITHIN, "region": {"type": "Circle", "coordinates": [1, 1], "radius": 3}, "where": "price < 50"},
    "listed": {**WITHIN, "keywords": ["new york", "tram"], "expires": 10_000},
}


@pytest.mark.parametrize("kind", ["application/x-ndjson", "application/vnd.apache.arrow.stream"])
def test_export_and_import_cross_folders(tmp_path: Path, kind: str) -> None:
    with running(tmp_path / "one") as server, running(tmp_path / "other", max_rows=4) as other:
        for id, query in KEPT.items():
            server.put(id, query)
        for n in range(9):
            server.publish(f"m{n}", 80 + n, 1.0 + n % 3, **({"fields": {"price": 10 * n}} if n % 2 else {}))
        is_arrow = kind.endswith("stream")
        for rows in ("messages", "subscriptions") if is_arrow else ("",):
            asked = {"params": {"rows": rows}, "headers": {"accept": kind}} if is_arrow else {}
            told = server.http.get("/v1/admin/export", **asked)  # type: ignore[arg-type]
            assert told.headers["content-type"] == kind
            answer = other.http.post("/v1/admin/import", content=told.content, headers={"content-type": kind}).json()
            assert (answer["rejects"], answer["late"]) == ([], [])
        for id in KEPT:
            for path in ("", "/results"):
                one, two = (each.http.get(f"/v1/subscriptions/{id}{path}").json() for each in (server, other))
                assert one | {"cursor": ""} == two | {"cursor": ""}
        if is_arrow:
            problem(server.http.get("/v1/admin/export", headers={"accept": kind}), 422)


def test_a_drained_server_takes_nothing_more(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        cursor = server.publish("a", 1)
        assert server.http.post("/v1/admin/drain").json()["cursor"] == cursor
        body = {"id": "b", "lon": 1, "lat": 1, "text": "a"}
        assert problem(server.http.post("/v1/messages", json=body), 503)["code"] == "draining"
        assert server.http.get("/readyz").status_code == 503
