"""Whatever is sent, the server answers, names what is wrong, and goes on."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearcast.server.schema import OPERATIONS
from server.serving import WITHIN, Running, running

ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
NAMES = ["id", "kind", "lon", "lat", "text", "keywords", "ts", "expires", "region", "event", "k", "url", "after"]
NAMES += ["subscriptions", "delivery", "name", "scopes", "prefix", "quotas", "disabled", "type", "geometry"]
WORDS = st.sampled_from(["within", "nearest", "publish", "subscribe", "move", "advance", "Feature", "tram", "w"])
LIKELY = st.dictionaries(st.sampled_from(NAMES), ODD | WORDS | st.floats(-5, 5), max_size=9)
BODIES = st.one_of(
    (LIKELY | st.lists(LIKELY, max_size=3) | ODD).map(lambda value: json.dumps(value).encode()),
    st.lists(LIKELY, max_size=3).map(lambda rows: b"\n".join(json.dumps(row).encode() for row in rows)),
    st.binary(max_size=40),
)
KINDS = ["application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream", "text/plain", ""]
LEFT_OUT = {
    "readyz",
    "drain",
    "snapshot",
    "add_key",
    "test_webhook",
    "replay_webhook",
    "stream",
    "export",
}  # they act, or last


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("fuzz")) as server:
        server.put("w", WITHIN)
        yield server


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(
    operation=st.sampled_from([each for each in OPERATIONS if each.name not in LEFT_OUT]),
    id=st.sampled_from(["w", "x", "%00", "a%2Fb", "7"]) | st.text("ab%/.", min_size=1, max_size=5),
    body=BODIES,
    kind=st.sampled_from(KINDS),
    asked=st.dictionaries(st.sampled_from(["limit", "next", "after"]), st.text(max_size=6), max_size=2),
)
def test_no_request_is_an_error_of_the_server(
    server: Running, operation: Any, id: str, body: bytes, kind: str, asked: dict[str, str]
) -> None:
    path = operation.path.replace("{id}", id).replace("{message}", "m")
    headers = {"content-type": kind} if kind else {}
    sent = body if operation.method in ("POST", "PUT", "PATCH") else None
    answer = server.http.request(operation.method, path, content=sent, headers=headers, params=asked)
    assert answer.status_code < 500 or answer.status_code == 503, (path, body, answer.text)
    if answer.status_code >= 400:
        assert answer.json()["detail"]


def test_no_frame_ends_the_server(server: Running) -> None:
    rng = random.Random(7)
    names = ["attach", "after", "detach", "move", "ack", "ping", "hello", "x"]
    values: list[Any] = [
        None,
        1,
        "now",
        "results",
        ["w"],
        ["w", "w"],
        [None],
        {},
        {"id": "w"},
        "a.1",
        [[]],
        1e300,
        True,
    ]
    talk = server.socket()
    for _ in range(150):
        frame = {rng.choice(names): rng.choice(values) for _ in range(rng.randint(0, 3))}
        talk.say(json.dumps(frame)[: rng.choice([None, 5])])
    talk.say({"ping": "end"})
    for _ in range(1_000):
        if json.loads(talk.socket.recv(60)) == {"pong": "end"}:
            break
    else:
        pytest.fail("the talk did not go on")
    talk.close()
    assert server.http.get("/healthz").status_code == 200
