"""Whatever is sent, the server answers, names what is wrong, and goes on."""

from __future__ import annotations

import contextlib
import json
import random
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearcast.server.schema import OPERATIONS
from server.serving import WITHIN, Running, running, wait

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


def framed(rng: random.Random, payload: bytes) -> bytes:
    """A frame of WebSocket that may lie about anything: bits, opcode, length, mask."""
    first = rng.choice([0x81, 0x81, 0x82, 0x01, 0x80, 0x88, 0x89, 0x8A, 0xF1, 0x83, 0x8F, rng.randrange(256)])
    told = rng.choice([len(payload)] * 6 + [125, 127, 2**16 - 1, 2**20 + 1, 2**40, 2**63])
    is_masked = rng.random() < 0.9
    if told < 126:
        size = bytes([told])
    elif told < 2**16:
        size = bytes([126]) + told.to_bytes(2, "big")
    else:
        size = bytes([127]) + told.to_bytes(8, "big")
    size = bytes([size[0] | (0x80 if is_masked else 0)]) + size[1:]
    return bytes([first]) + size + (bytes(4) if is_masked else b"") + payload


HOSTILE = [
    b'{"hello": 1}',
    b'{"hello": 1, "token": ' + b"[" * 2_000,
    b'{"attach": ["w"], "after": "now"}',
    b'{"attach": [' + b'"w",' * 20_000 + b'"w"]}',
    b"\xff\xfe\xfd",
    b'"' + b"\xc3" * 50,
    b"\x03\xe8",
    b"\xff\xff bad code",
    b"",
    b"x" * 70_000,
]


def test_no_bytes_on_a_socket_end_the_server(server: Running) -> None:
    rng = random.Random(11)
    host, port = server.address.removeprefix("http://").split(":")
    head = "GET /v1/ws HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
    head += "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n"
    for _ in range(60):
        with socket.create_connection((host, int(port)), 60) as wire:
            wire.sendall(head.encode())
            assert b"101" in wire.recv(4_096)
            if rng.random() < 0.7:
                wire.sendall(b"\x81\x8c" + bytes(4) + HOSTILE[0])
            with contextlib.suppress(OSError):
                for _ in range(rng.randint(1, 6)):
                    wire.sendall(framed(rng, rng.choice(HOSTILE)))
                if rng.random() < 0.5:
                    wire.sendall(rng.randbytes(rng.randint(1, 3_000)))
                wire.shutdown(socket.SHUT_WR)
                while wire.recv(65_536):  # until the server has closed it, too
                    pass
    wait(lambda: not server.service.connections)
    talk = server.socket()
    talk.say({"attach": ["w"], "after": "now"})
    talk.hear("attached")
    talk.close()
