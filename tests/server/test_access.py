"""Who may do what: keys, scopes, tenants, tokens that expire, quotas."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from websockets.exceptions import ConnectionClosed

from nearcast.errors import InvalidInput
from nearcast.server.access.auth import Caller
from nearcast.server.access.quotas import Quotas
from nearcast.server.config import Quotas as Limits
from nearcast.server.config import load
from nearcast.server.problems import Problem
from nearcast.server.service import Service
from server.serving import WITHIN, Running, Talk, running, settings

SECRET = "a secret of some thirty-two bytes!"


def key(server: Running, admin: str | None, scopes: list[str], **more: Any) -> str:
    headers = {"Authorization": f"Bearer {admin}"} if admin else {}
    answer = server.http.post("/v1/admin/keys", json={"name": "k", "scopes": scopes, **more}, headers=headers)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["key"])


def test_keys_have_scopes_and_tenants_their_own_ids(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        assert server.http.post("/v1/admin/keys", json={"name": "k", "scopes": ["publish"]}).status_code == 422
        admin = key(server, None, ["admin"])
        assert server.http.get("/v1/subscriptions").status_code == 401
        assert server.http.get("/healthz").status_code == 200
        publisher = key(server, admin, ["publish"])
        tenant = key(server, admin, ["subscribe:own"], prefix="acme:", quotas={"subscriptions": 1, "connections": 1})
        reader = key(server, admin, ["subscribe:own", "read"], prefix="b:")

        def ask(token: str, method: str, path: str, body: Any = None) -> httpx.Response:
            return server.http.request(method, path, json=body, headers={"Authorization": f"Bearer {token}"})

        message = {"id": "m", "lon": 1, "lat": 1, "text": "tram", "ts": 1}
        assert ask(publisher, "POST", "/v1/messages", message).status_code == 202
        assert ask(publisher, "GET", "/v1/subscriptions").status_code == 403
        assert ask(tenant, "POST", "/v1/messages", message).status_code == 403
        assert ask(tenant, "PUT", "/v1/subscriptions/acme:1", WITHIN).status_code == 201
        assert ask(tenant, "PUT", "/v1/subscriptions/acme:1", WITHIN).status_code == 200
        over = ask(tenant, "PUT", "/v1/subscriptions/acme:2", WITHIN)
        assert (over.status_code, over.json()["field"]) == (429, "subscriptions")
        assert ask(tenant, "PUT", "/v1/subscriptions/other", WITHIN).status_code == 403
        assert ask(admin, "PUT", "/v1/subscriptions/b:1", WITHIN).status_code == 201
        for path in ("", "/results", "/updates?after=x.1", "/explain/m"):
            assert ask(tenant, "GET", f"/v1/subscriptions/b:1{path}").status_code == 403
        assert ask(tenant, "DELETE", "/v1/subscriptions/b:1").status_code == 403
        assert [each["id"] for each in ask(tenant, "GET", "/v1/subscriptions").json()["subscriptions"]] == ["acme:1"]
        assert len(ask(reader, "GET", "/v1/subscriptions").json()["subscriptions"]) == 2
        assert ask(reader, "GET", "/v1/subscriptions/acme:1/results").status_code == 200
        assert ask(reader, "DELETE", "/v1/subscriptions/acme:1").status_code == 403
        for path in ("keys", "export", "slow"):
            assert ask(reader, "GET", f"/v1/admin/{path}").status_code == 403
        talk = server.socket(token=tenant)
        talk.say({"attach": ["b:1"], "after": "now"})
        assert talk.hear("error")["error"]["code"] == "forbidden"
        talk.say({"attach": ["acme:1"], "after": "now"})
        talk.hear("attached")
        assert ask(tenant, "GET", "/v1/stream?subscriptions=acme:1").status_code == 429
        talk.close()
        listed = ask(admin, "GET", "/v1/admin/keys").json()["keys"]
        assert len(listed) == 4
        assert "hash" not in listed[0]
        gone = next(each["id"] for each in listed if each["scopes"] == ["publish"])
        assert ask(admin, "DELETE", f"/v1/admin/keys/{gone}").status_code == 204
        assert ask(publisher, "POST", "/v1/messages", message).status_code == 401
        assert publisher.encode() not in (tmp_path / "server.db").read_bytes()
        assert ask("nonsense", "GET", "/v1/subscriptions").status_code == 401
        assert ask(admin + "x", "GET", "/v1/subscriptions").status_code == 401
        slow = ask(admin, "GET", "/v1/admin/slow").json()
        assert slow["connections"] == []


def connected_for_a_while(server: Running, claims: dict[str, Any]) -> tuple[Talk, dict[str, str]]:
    """A connection whose token lives a few seconds, longer where that was too short to connect."""
    for seconds in (2, 8, 32):
        token = jwt.encode({**claims, "exp": time.time() + seconds}, SECRET, "HS256")
        with contextlib.suppress(AssertionError, ConnectionClosed):
            return server.socket(token=token), {"Authorization": f"Bearer {token}"}
    raise AssertionError("no token lived long enough")


def test_a_connection_ends_with_its_token(tmp_path: Path) -> None:
    with running(tmp_path, jwt={"key": SECRET, "algorithms": ["HS256"]}) as server:
        assert server.http.get("/v1/subscriptions").status_code == 401
        claims: dict[str, Any] = {"sub": "ann", "scope": "subscribe:own publish", "prefix": "ann:"}
        long = jwt.encode({**claims, "exp": time.time() + 3_600}, SECRET, "HS256")
        headers = {"Authorization": f"Bearer {long}"}
        assert server.http.put("/v1/subscriptions/ann:1", json=WITHIN, headers=headers).status_code == 201
        talk, headers = connected_for_a_while(server, claims)
        with pytest.raises(ConnectionClosed) as closed:
            list(iter(lambda: talk.socket.recv(60), None))
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4001
        talk.close()
        assert server.http.get("/v1/subscriptions", headers=headers).status_code == 401
        forged = jwt.encode({**claims, "exp": time.time() + 3_600}, "b" * 40, "HS256")
        for wrong in (forged, jwt.encode({"sub": "x"}, SECRET, "HS256")):
            answer = server.http.get("/v1/subscriptions", headers={"Authorization": f"Bearer {wrong}"})
            assert answer.status_code == 401


def test_no_address_beyond_the_loopback_without_a_key(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--host must be a loopback address until there is a key"):
        Service(settings(tmp_path, host="0.0.0.0"))


def test_buckets_fill_again() -> None:
    now = [0.0]
    quotas = Quotas(lambda: now[0])
    caller = Caller("c", frozenset(), quotas=Limits(messages_per_second=10))
    quotas.publish(caller, 20)
    with pytest.raises(Problem, match="messages_per_second"):
        quotas.publish(caller, 1)
    now[0] = 0.5
    quotas.publish(caller, 5)
    now[0] = 100.0
    quotas.publish(caller, 1_000)  # more than the bucket holds: it takes a full one, and waits long


def test_a_file_and_options_make_a_config(tmp_path: Path) -> None:
    path = tmp_path / "serve.toml"
    path.write_text('data = "a"\nport = 9\norigins = ["https://x.example"]\n[quotas]\nsubscriptions = 5\n')
    config = load(str(path), {"port": 10, "host": None})
    assert (config.port, config.data, config.quotas.subscriptions) == (10, "a", 5)
    path.write_text('data = "a"\ncolour = "red"\n')
    with pytest.raises(InvalidInput, match="colour"):
        load(str(path), {})
    path.write_text("data =")
    with pytest.raises(InvalidInput, match="must be a file in TOML"):
        load(str(path), {})
