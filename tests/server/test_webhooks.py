"""Webhooks against a real endpoint: signed, in order, again until taken; and addresses that are refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from nearcast.server.push.egress import is_public
from nearcast.server.push.silence import Silence
from server.serving import WITHIN, Running, running, wait

QUICK = (0.05, 0.05, 0.05)


class Endpoint:
    """Takes what comes, and answers what it is told to."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.statuses: list[int] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(outer.statuses.pop(0) if outer.statuses else 200)
                self.send_header("location", "http://127.0.0.1:1/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def heard(self) -> list[str]:
        """The messages that entered, in the order in which they were taken."""
        bodies = [json.loads(body) for _, body in self.got]
        return [row[2] for body in bodies if body["type"] == "updates" for row in body["data"]["u"]]


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


def hooked(server: Running, endpoint: Endpoint, **more: Any) -> dict[str, Any]:
    server.put("w", WITHIN)
    answer = server.http.post("/v1/webhooks", json={"url": endpoint.url, "subscriptions": ["w"], **more})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def test_deliveries_are_signed_ordered_and_tried_again(tmp_path: Path, endpoint: Endpoint) -> None:
    with running(tmp_path, allow_private_webhooks=True, webhook_retries_s=QUICK) as server:
        made = hooked(server, endpoint)
        server.publish("a", 1)
        wait(lambda: endpoint.heard() == ["a"])
        headers, body = endpoint.got[0]
        Webhook(made["secret"]).verify(body.decode(), headers)
        assert json.loads(body)["data"]["messages"]["a"]["text"] == "tram"
        endpoint.statuses += [500, 302, 503]
        server.publish("b", 2)
        wait(lambda: len(endpoint.got) >= 2)  # else both would go together
        server.publish("c", 3)
        wait(lambda: endpoint.heard()[-1] == "c" and len(endpoint.got) >= 6)
        ids = [headers["webhook-id"] for headers, _ in endpoint.got]
        assert ids[1] == ids[2] == ids[3] == ids[4]
        assert ids[0] != ids[1]
        taken = [json.loads(body)["data"]["u"][0][2] for _, body in endpoint.got]
        assert taken[:5] == ["a", "b", "b", "b", "b"]
        secret = server.http.post(f"/v1/webhooks/{made['id']}/rotate").json()["secret"]
        assert server.http.post(f"/v1/webhooks/{made['id']}/test").json()["status"] == 200
        headers, body = endpoint.got[-1]
        for each in (secret, made["secret"]):
            Webhook(each).verify(body.decode(), headers)
        server.http.delete("/v1/subscriptions/w")
        wait(lambda: json.loads(endpoint.got[-1][1])["data"].get("ended") == [{"end": "w", "reason": "deleted"}])
        server.put("w", WITHIN)
        wait(lambda: endpoint.heard()[-3:] == ["c", "b", "a"])  # the next one of that name is followed as well


def test_names_of_digits_are_told_to(tmp_path: Path, endpoint: Endpoint) -> None:
    with running(tmp_path, allow_private_webhooks=True) as server:
        for id in ("7", "\u00b2"):
            told = server.http.post("/v1/subscriptions", json={**WITHIN, "id": id}).json()
            assert told["accepted"] == 1, told
        answer = server.http.post("/v1/webhooks", json={"url": endpoint.url, "subscriptions": ["7", "\u00b2"]})
        assert answer.status_code == 201, answer.text
        server.publish("a", 1)
        wait(lambda: len(endpoint.heard()) == 2)
        rows = [row for _, body in endpoint.got for row in json.loads(body)["data"]["u"]]
        assert sorted(row[0] for row in rows) == ["7", "\u00b2"]


def test_what_is_not_taken_is_a_dead_letter_that_can_be_sent_again(tmp_path: Path, endpoint: Endpoint) -> None:
    with running(tmp_path, allow_private_webhooks=True, webhook_retries_s=QUICK) as server:
        made = hooked(server, endpoint)
        address = f"/v1/webhooks/{made['id']}"
        endpoint.statuses += [500] * 4
        server.publish("lost", 1)
        wait(
            lambda: any(
                each["state"] == "dead" for each in server.http.get(f"{address}/deliveries").json()["deliveries"]
            )
        )
        server.publish("next", 2)
        wait(lambda: endpoint.heard()[-1] == "next")
        assert server.http.post(f"{address}/replay").json() == {"sent": 1, "failed": 0}
        assert endpoint.heard()[-1] == "lost"
        assert endpoint.got[-1][0]["webhook-id"] == endpoint.got[0][0]["webhook-id"]
        endpoint.statuses += [410]
        server.publish("gone", 3)
        wait(lambda: server.http.get(address).json()["disabled"])
        server.publish("later", 4)
        assert server.http.patch(address, json={"disabled": False}).json()["disabled"] is None
        wait(lambda: endpoint.heard()[-1] == "later")
        assert "nearcast_webhook_dead_letters_total 2.0" in server.http.get("/metrics").text
        assert server.http.delete(address).status_code == 204
        assert server.http.get(address).status_code == 404


def test_a_restart_goes_on_where_it_was(tmp_path: Path, endpoint: Endpoint) -> None:
    options: dict[str, Any] = {"allow_private_webhooks": True, "webhook_retries_s": (60,)}
    with running(tmp_path, **options) as server:
        hooked(server, endpoint)
        endpoint.statuses += [500]
        server.publish("a", 1)
        wait(lambda: endpoint.got)
        server.publish("b", 2)
    with running(tmp_path, **options) as server:
        wait(lambda: "b" in endpoint.heard())
        server.publish("c", 3)
        wait(lambda: "c" in endpoint.heard())
    ids = [headers["webhook-id"] for headers, _ in endpoint.got]
    assert ids[0] == ids[1]
    assert endpoint.heard() == ["a", "a", "b", "c"]


def test_who_falls_silent_is_told_once(tmp_path: Path, endpoint: Endpoint) -> None:
    options: dict[str, Any] = {"allow_private_webhooks": True, "webhook_retries_s": QUICK}

    def told() -> list[Any]:
        return [json.loads(body)["data"] for _, body in endpoint.got if json.loads(body)["type"] == "quiet"]

    endpoint.statuses += [500]
    with running(tmp_path, **options) as server:
        made = hooked(server, endpoint, delivery={"quiet": 0.2})
        wait(lambda: len(endpoint.got) == 2)  # refused at first
        assert told() == [{"quiet": "w", "seconds": 0.2, "c": made["cursor"]}] * 2
        assert endpoint.got[0][0]["webhook-id"] == endpoint.got[1][0]["webhook-id"]
    with running(tmp_path, **options) as server:  # it goes on knowing what was told
        server.publish("a", 1)
        wait(lambda: endpoint.heard() == ["a"])
        wait(lambda: len(told()) == 3)
        server.publish("b", 2)
        wait(lambda: endpoint.heard() == ["a", "b"])
        assert [json.loads(body)["type"] for _, body in endpoint.got[2:5]] == ["updates", "quiet", "updates"]


def test_silence_is_counted_by_the_clock() -> None:
    silence = Silence(10.0, ["a", "b"], 100.0, {"b": 95.0})
    assert (silence.wait(100.0), silence.due(104.0), silence.due(105.0)) == (5.0, None, "b")
    silence.told("b")
    assert (silence.due(109.0), silence.wait(109.0), silence.due(110.0)) == (None, 1.0, "a")
    silence.hear("b", 112.0)
    silence.hear("c", 112.0)
    silence.told("a")
    assert (silence.wait(112.0), silence.due(122.0)) == (10.0, "b")
    assert Silence(10.0, ["a", "b"], 200.0, silence.heard).wait(112.0) == 10.0
    assert Silence(None, ["a"], 0.0, {}).wait(5.0) is None


def test_addresses_that_are_not_public_are_refused(tmp_path: Path, endpoint: Endpoint) -> None:
    with running(tmp_path) as server:
        server.put("w", WITHIN)
        for url in (endpoint.url, "https://127.0.0.1/", "https://[::1]/", "https://u:p@example.org/", "ftp://x/", "x"):
            answer = server.http.post("/v1/webhooks", json={"url": url, "subscriptions": ["w"]})
            assert (answer.status_code, answer.json()["field"]) == (422, "url")
        made = server.http.post("/v1/webhooks", json={"url": "https://localhost:9/", "subscriptions": ["w"]}).json()
        told = server.http.post(f"/v1/webhooks/{made['id']}/test").json()
        assert told["status"] == 0
        assert "which is not public" in told["error"]
        assert (
            server.http.post("/v1/webhooks", json={"url": "https://a.example/", "subscriptions": ["x"]}).status_code
            == 404
        )


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("2002:0a00:0001::1", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
    ],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert is_public(address) == public
