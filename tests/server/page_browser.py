"""The page in a real browser: opened, watched for errors and for requests that leave the host, and driven."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Playwright

CHROMIUM = shutil.which("chromium")
AXE = Path(__file__).with_name("vendor") / "axe-core" / "axe.min.js"
WAIT_S = 120.0  # for a machine that has much else to do


def launched(playwright: Playwright) -> Browser:
    if CHROMIUM is None:
        pytest.skip("there is no chromium; make test-tools installs it")
    flags = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-sandbox"]
    return playwright.chromium.launch(executable_path=CHROMIUM, args=flags)


class Opened:
    """A page of a server, and what it asked for."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.context = context
        self.address = address
        self.http = httpx.Client(base_url=address, timeout=WAIT_S)
        self.hosts: set[str] = set()
        self.paths: set[str] = set()
        self.errors: list[str] = []
        self.page = context.new_page()
        self.page.set_default_timeout(1_000 * WAIT_S)
        self.page.on("request", lambda request: self._asked(request.url))
        self.page.on("websocket", lambda socket: self.hosts.add(urlsplit(socket.url).netloc))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._said)

    def _asked(self, url: str) -> None:
        self.hosts.add(urlsplit(url).netloc)
        self.paths.add(urlsplit(url).path)

    def _said(self, message: ConsoleMessage) -> None:
        # A refused subscription and a server that is away are logged by the browser itself.
        if (
            message.type == "error"
            and "Failed to load resource" not in message.text
            and "WebSocket" not in message.text
        ):
            self.errors.append(message.text)

    def go(self, key: str | None) -> Opened:
        self.page.goto(self.address)
        for given in [] if key is None else ["wrong", key]:
            self.page.wait_for_selector("#key-dialog[open]")
            self.page.fill("#key", given)
            self.page.click("#key-form button")
        self.page.wait_for_selector("html[data-ready]")
        self.until(lambda: self.state("connection") == "open", "the page is connected")
        return self

    def state(self, name: str) -> Any:
        return self.page.evaluate("name => window.__state[name]", name)

    def result(self, key: str) -> list[str]:
        """The result of a subscription, as the page has it."""
        found = self.state("subscriptions").get(key)
        return sorted(message for message, _ in found["results"]) if found else []

    def served(self, key: str) -> list[str]:
        """The result of a subscription, as the server has it."""
        return sorted(
            str(message) for message, _ in self.http.get(f"/v1/subscriptions/{key}/results").json()["results"]
        )

    def body(self, key: str) -> Any:
        return self.http.get(f"/v1/subscriptions/{key}").json()

    def put(self, key: str, **query: Any) -> str:
        answer = self.http.put(f"/v1/subscriptions/{key}", json={"id": key, **query})
        assert answer.status_code in (200, 201), answer.text
        return str(answer.json()["cursor"])

    def publish(self, *messages: dict[str, Any]) -> str:
        lines = "\n".join(json.dumps(message) for message in messages)
        answer = self.http.post("/v1/messages", content=lines, headers={"Content-Type": "application/x-ndjson"})
        assert answer.status_code == 202, answer.text
        assert answer.json()["rejects"] == []
        return str(answer.json()["cursor"])

    def listed(self, key: str) -> None:
        """Wait until the page hears of a subscription, and of all that it was told so far."""
        self.page.evaluate("() => window.dispatchEvent(new Event('focus'))")
        self.until(lambda: self.state("subscriptions").get(key, {}).get("heard", False), f"{key} is heard")
        self.same(key)

    def drawn(self) -> None:
        """Wait until the browser has drawn what there is."""
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def tidy(self) -> None:
        """Close what a test has opened."""
        self.page.evaluate("() => document.querySelectorAll('details, dialog').forEach(each => { each.open = false; })")

    def same(self, key: str) -> None:
        """Wait until the page and the server have the same result."""
        self.until(lambda: self.result(key) == self.served(key), f"the result of {key} is the server's")

    def select(self, key: str) -> None:
        self.page.click(f"#subscriptions li[data-key='{key}'] button")

    def until(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + WAIT_S
        while not holds():
            assert time.monotonic() < end, f"not within {WAIT_S:.0f} s: {what}; {self.errors}"
            self.page.wait_for_timeout(30)

    def violations(self) -> list[str]:
        """What axe finds that is serious or worse."""
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.page.evaluate("async () => (await axe.run(document)).violations")
        return [
            f"{each['id']}: {[node['html'][:120] for node in each['nodes']][:3]}"
            for each in found
            if each["impact"] in ("serious", "critical")
        ]


@contextmanager
def opened(browser: Browser, address: str, init: str = "", key: str | None = None, **options: Any) -> Iterator[Opened]:
    """A page of a server, after a script `init`; it must have no error in the end, and no outside request."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    context.add_init_script(init)
    page = Opened(context, address)
    try:
        yield page.go(key)
        assert page.errors == []
        assert page.hosts == {urlsplit(address).netloc}
    finally:
        page.http.close()
        context.close()
