"""Webhooks: what changes goes to an address, signed, in order, and again until it is taken.

Every webhook has a task and a cursor. It reads the update log from its cursor on, at its own pace: nothing waits in
memory, and the writer never waits for it. A delivery is noted before it is sent, with the events that it covers, so
that it has the same id and content after a restart. One request is on its way at a time. What is not taken after all
retries is a dead letter: it is noted, the next delivery follows, and it can be sent again as long as the log has it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import random
import secrets
import sqlite3
import sys
import time
from datetime import UTC, datetime
from typing import Any

import msgspec
from standardwebhooks import Webhook as Signer

from nearcast.errors import NearcastError
from nearcast.server.access.store import Statement, Store
from nearcast.server.backend import Backend
from nearcast.server.config import Config
from nearcast.server.durable.bodies import Id, spelled
from nearcast.server.durable.state import UnknownEpoch
from nearcast.server.durable.updates import Told, Trimmed
from nearcast.server.logs import log
from nearcast.server.metrics import Metrics
from nearcast.server.problems import Problem
from nearcast.server.push.delivery import Delivery, Pace
from nearcast.server.push.egress import Egress, Refused, check_url
from nearcast.server.push.hub import Hub, bodies_of, rows_of
from nearcast.server.push.net_change import Row, net
from nearcast.server.push.silence import Silence

MOST_ROWS = 500  # of a delivery, unless a single event has more
_MOST_NETTED = 20_000  # updates that one net change is made of
_BOTH_SIGN_S = 86_400.0  # how long an old secret signs beside the new one
_KEPT_DELIVERIES = 1_000
_JITTER = 0.2
_STORE_S = 5.0  # after which a database that failed is tried again
_PENDING, _DONE, _DEAD = "pending", "done", "dead"
_QUIET = "quiet "  # what a delivery begins with, instead of a cursor, if it tells of a silence

Json = dict[str, Any]


def new_secret() -> str:
    """A secret as Standard Webhooks has it."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


class Hook:
    """One webhook at work; it follows its subscriptions in the hub only to know when to look."""

    def __init__(self, row: Json, webhooks: Webhooks) -> None:
        self.id: str = row["id"]
        self.owner: str = row["owner"]
        self.url: str = row["url"]
        self.names: list[str] = msgspec.json.decode(row["subscriptions"])
        # What its names may mean: strings, and whole numbers that they spell.
        self.ids: frozenset[Id] = frozenset([*self.names, *(n for n in map(spelled, self.names) if n is not None)])
        self.delivery = msgspec.json.decode(row["options"], type=Delivery)
        self.secrets: list[tuple[str, float]] = msgspec.json.decode(row["secrets"], type=list[tuple[str, float]])
        self.cursor: str = row["cursor"]
        self.disabled: str = row["disabled"]
        self.created: float = row["created"]
        self._webhooks = webhooks
        self._pace = Pace(self.delivery)
        known = msgspec.json.decode(row["heard"], type=dict[str, float | None])
        self.silence = Silence(self.delivery.quiet, self.names, time.time(), known)
        self._wake = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def tell(self, event: int, rows: list[Row], bodies: dict[Id, msgspec.Raw]) -> None:
        """There is something to read."""
        for row in rows:
            self.silence.hear(str(row[0]), time.time())
        self._wake.set()

    def end(self, event: int, id: Id, reason: str) -> None:
        """There is something to read."""
        self._wake.set()

    def shown(self) -> Json:
        """The JSON form, without secrets."""
        shown = {"id": self.id, "url": self.url, "subscriptions": self.names, "cursor": self.cursor}
        return {**shown, "delivery": self.delivery, "disabled": self.disabled or None, "created": self.created}

    # Work

    async def run(self) -> None:
        """Deliver, one after another, until cancelled or disabled."""
        pending = self._webhooks.pending(self.id)
        self._wake.set()
        while not self.disabled:
            if pending is None:
                pending = await self._sleep()
            if pending is None:
                wait = self._pace.wait(time.monotonic())
                if wait > 0:
                    await asyncio.sleep(wait)
                self._wake.clear()
                pending = await self._next()
            if pending is not None:
                await self._deliver(pending)
                self._pace.sent(time.monotonic())
                self._wake.set()
                pending = None

    async def _sleep(self) -> Json | None:
        """Until there is something to read, or a silence to tell: that is a delivery of its own."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.silence.wait(time.time())):
                await self._wake.wait()
        silent = None if self._wake.is_set() else self.silence.due(time.time())
        if silent is None:
            return None
        self.silence.told(silent)
        return await self._webhooks.note(self, _QUIET + silent, self.cursor)

    async def _next(self) -> Json | None:
        """Note the next delivery: which events it covers."""
        state = self._webhooks.backend.state
        until = state.event
        try:
            after = state.event_of(self.cursor)
            found, more = await self._read(after, until, _MOST_NETTED if self.delivery.nets else MOST_ROWS)
        except (UnknownEpoch, Trimmed):
            return await self._webhooks.note(self, self.cursor, state.cursor())  # its content will be a gap
        if not found:
            self.cursor = state.cursor(until)
            return None
        return await self._webhooks.note(self, state.cursor(after), state.cursor(found[-1].event if more else until))

    async def _read(self, after: int, until: int, most: int) -> tuple[list[Told], bool]:
        updates = self._webhooks.backend.state.updates
        assert updates is not None
        return await asyncio.to_thread(updates.read_some, after, until, self.ids, most)

    async def _content(self, first: str, last: str) -> Json:
        """What a delivery tells; a gap and the results, if the updates are gone."""
        if first.startswith(_QUIET):
            return {"quiet": first.removeprefix(_QUIET), "seconds": self.delivery.quiet, "c": last}
        state = self._webhooks.backend.state
        try:
            found, _ = await self._read(state.event_of(first), state.event_of(last), sys.maxsize)
        except (UnknownEpoch, Trimmed):
            return await self._gap(first)
        rows = [row for told in found for row in rows_of(told.updates)]
        rows = net(rows) if self.delivery.nets else rows
        bodies = {str(id): body for id, body in bodies_of(state, rows).items()}
        ended = [{"end": id, "reason": reason} for told in found for id, reason in told.ended]
        return {"u": rows, "c": last, "messages": bodies, "ended": ended}

    async def _gap(self, first: str) -> Json:
        backend = self._webhooks.backend
        known = [id for id in map(backend.state.bodies.subscriptions.named, self.names) if id is not None]
        results, cursor = await backend.ask(lambda broker: {str(id): list(broker.results(id)) for id in known})
        return {"gap": self.names, "from": first, "to": cursor, "results": results, "c": cursor}

    async def _deliver(self, delivery: Json) -> None:
        """Send until it is taken, given up, or the endpoint is gone."""
        waits = self._webhooks.retries
        while True:
            status, error, wait = await self.attempt(delivery)
            delivery["attempts"] += 1
            if 200 <= status < 300:
                await self._webhooks.finish(self, delivery, _DONE, "")
                return
            if status == 410:
                self.disabled = "the endpoint answered 410"
                await self._webhooks.finish(self, delivery, _DEAD, self.disabled)
                return
            if delivery["attempts"] > len(waits):
                await self._webhooks.finish(self, delivery, _DEAD, error)
                return
            await self._webhooks.attempted(delivery, error)
            planned = waits[delivery["attempts"] - 1] * (1 + _JITTER * random.uniform(-1, 1))
            await asyncio.sleep(max(planned, wait))

    async def attempt(self, delivery: Json) -> tuple[int, str, float]:
        """The status of one request, what went wrong, and how long the other side asks to wait."""
        content = await self._content(delivery["first"], delivery["last"])
        if "gap" in content:
            delivery["last"] = content["c"]
        kind = next((name for name in ("gap", "quiet") if name in content), "updates")
        return await self.send(delivery["id"], kind, content)

    async def send(self, id: str, kind: str, content: Json) -> tuple[int, str, float]:
        """One request, signed with every secret that counts."""
        now = datetime.now(UTC)
        body = msgspec.json.encode({"type": kind, "timestamp": now, "data": content})
        signatures = [
            Signer(secret).sign(id, now, body.decode()) for secret, until in self.secrets if until > time.time()
        ]
        headers = {
            "content-type": "application/json",
            "webhook-id": id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": " ".join(signatures),
        }
        try:
            status, said = await self._webhooks.egress.post(self.url, headers, body)
        except (OSError, Refused) as error:
            self._webhooks.metrics.hooks.labels("failed").inc()
            return 0, str(error), 0.0
        self._webhooks.metrics.hooks.labels(str(status)).inc()
        asked = said.get("retry-after", "")
        return status, f"the endpoint answered {status}", min(float(asked), 86_400.0) if asked.isdecimal() else 0.0


class Webhooks:
    """All webhooks of a server."""

    def __init__(self, store: Store, hub: Hub, backend: Backend, config: Config, metrics: Metrics) -> None:
        self._store = store
        self._hub = hub
        self.backend = backend
        self.metrics = metrics
        self.retries = config.webhook_retries_s
        self._allow_private = config.allow_private_webhooks
        self.egress = Egress(config.allow_private_webhooks)
        self._hooks: dict[str, Hook] = {}
        known = store.rows("SELECT coalesce(max(number), 0) AS n FROM deliveries")[0]["n"]
        self._numbers = itertools.count(known + 1)  # of deliveries

    def start(self) -> None:
        """Go on with those that are stored."""
        for row in self._store.rows("SELECT * FROM webhooks"):
            self._begin(Hook(row, self))

    async def stop(self) -> None:
        """End; what was not answered is sent again after the next start."""
        for hook in self._hooks.values():
            await self._halt(hook)
        await self.egress.close()

    def _begin(self, hook: Hook) -> None:
        self._hooks[hook.id] = hook
        for id in hook.ids:
            self._hub.attach(id, hook)
        hook.task = asyncio.create_task(self._watched(hook))

    async def _watched(self, hook: Hook) -> None:
        while True:
            try:
                await hook.run()
                return
            except sqlite3.Error as error:  # such as a full disk: what was under way is sent again, under its id
                log("webhook", id=hook.id, error=repr(error))
                await asyncio.sleep(_STORE_S)
            except NearcastError as error:
                log("webhook", id=hook.id, error=repr(error))
                raise

    async def _halt(self, hook: Hook) -> None:
        for id in hook.ids:
            self._hub.detach(id, hook)
        if hook.task is not None:
            hook.task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await hook.task
        with contextlib.suppress(sqlite3.Error):
            await self._store.change()  # what it noted last is noted by now

    # What routes ask for

    def of(self, owner: str | None) -> list[Hook]:
        """The webhooks of an owner, or all."""
        return [hook for hook in self._hooks.values() if owner is None or hook.owner == owner]

    def get(self, id: str, owner: str | None) -> Hook:
        """One webhook.

        Raises
        ------
        Problem
            404 if there is none, or it is somebody else's.
        """
        hook = self._hooks.get(id)
        if hook is None or owner not in (None, hook.owner):
            raise Problem(404, "unknown-id", f"there is no webhook {id!r}", field="id", value=id)
        return hook

    def add(self, owner: str, url: str, names: list[str], delivery: Delivery, cursor: str) -> tuple[Hook, str]:
        """Make a webhook; returns it with its secret."""
        secret = new_secret()
        row: Json = {"id": "wh_" + secrets.token_hex(8), "owner": owner, "url": check_url(url, self._allow_private)}
        row |= {"subscriptions": msgspec.json.encode(names).decode(), "options": msgspec.json.encode(delivery).decode()}
        row |= {"secrets": msgspec.json.encode([(secret, 9e12)]).decode(), "cursor": cursor, "created": time.time()}
        self._store.run(f"INSERT INTO webhooks ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", *row.values())
        hook = Hook({**row, "disabled": "", "heard": "{}"}, self)
        self._begin(hook)
        return hook, secret

    async def change(self, hook: Hook, url: str | None, enable: bool) -> None:
        """Give a webhook another address, or switch it on again."""
        if url is not None:
            hook.url = check_url(url, self._allow_private)
        if enable:
            hook.disabled = ""
        self._store.run("UPDATE webhooks SET url = ?, disabled = ? WHERE id = ?", hook.url, hook.disabled, hook.id)
        await self._halt(hook)
        self._begin(hook)

    async def remove(self, hook: Hook) -> None:
        """Forget a webhook."""
        await self._halt(hook)
        del self._hooks[hook.id]
        self._store.run("DELETE FROM webhooks WHERE id = ?", hook.id)

    def rotate(self, hook: Hook) -> str:
        """Give it another secret; the old one signs beside it for a day."""
        secret, until = new_secret(), time.time() + _BOTH_SIGN_S
        hook.secrets = [(secret, 9e12), *((old, min(ends, until)) for old, ends in hook.secrets if ends > time.time())][
            :2
        ]
        self._store.run(
            "UPDATE webhooks SET secrets = ? WHERE id = ?", msgspec.json.encode(hook.secrets).decode(), hook.id
        )
        return secret

    def deliveries(self, hook: Hook) -> list[Json]:
        """The last ones, newest first."""
        query = "SELECT * FROM deliveries WHERE webhook = ? ORDER BY number DESC LIMIT 100"
        shown = ("id", "first", "last", "attempts", "state", "error", "at")
        return [{name: row[name] for name in shown} for row in self._store.rows(query, hook.id)]

    async def replay(self, hook: Hook) -> Json:
        """Send dead letters again, oldest first, once each."""
        query = "SELECT * FROM deliveries WHERE webhook = ? AND state = ? ORDER BY number"
        sent = failed = 0
        for delivery in self._store.rows(query, hook.id, _DEAD):
            status, error, _ = await hook.attempt(delivery)
            delivery["attempts"] += 1
            if 200 <= status < 300:
                done = "UPDATE deliveries SET state = ?, error = '' WHERE id = ?"
                await self._store.change(Statement(done, (_DONE, delivery["id"])))
                sent += 1
            else:
                await self.attempted(delivery, error)
                failed += 1
        return {"sent": sent, "failed": failed}

    # What a webhook notes

    def pending(self, id: str) -> Json | None:
        """The delivery that was on its way."""
        found = self._store.rows("SELECT * FROM deliveries WHERE webhook = ? AND state = ?", id, _PENDING)
        return found[0] if found else None

    async def note(self, hook: Hook, first: str, last: str) -> Json:
        """A delivery, before it is sent."""
        number = next(self._numbers)
        delivery: Json = {"id": f"msg_{hook.id[3:]}_{number}", "webhook": hook.id, "first": first, "last": last}
        delivery |= {"attempts": 0, "state": _PENDING, "error": "", "at": time.time(), "number": number}
        names, places = ", ".join(delivery), ", ".join("?" * len(delivery))
        await self._store.change(
            Statement(f"INSERT INTO deliveries ({names}) VALUES ({places})", tuple(delivery.values()))
        )
        return delivery

    async def attempted(self, delivery: Json, error: str) -> None:
        """An attempt failed."""
        values = (delivery["attempts"], error, delivery["id"])
        await self._store.change(Statement("UPDATE deliveries SET attempts = ?, error = ? WHERE id = ?", values))

    async def finish(self, hook: Hook, delivery: Json, state: str, error: str) -> None:
        """A delivery was taken or given up; the webhook goes on behind it. All of it is noted at once: else a kill in
        between would have it sent again under another id."""
        hook.cursor = delivery["last"]
        values = (state, error, delivery["attempts"], delivery["last"], delivery["id"])
        place = (hook.cursor, hook.disabled, msgspec.json.encode(hook.silence.heard).decode(), hook.id)
        await self._store.change(
            Statement("UPDATE deliveries SET state = ?, error = ?, attempts = ?, last = ? WHERE id = ?", values),
            Statement("UPDATE webhooks SET cursor = ?, disabled = ?, heard = ? WHERE id = ?", place),
            Statement(
                "DELETE FROM deliveries WHERE webhook = ? AND state = ? AND number <= ?",
                (hook.id, _DONE, delivery["number"] - _KEPT_DELIVERIES),
            ),
        )
        if state == _DEAD:
            self.metrics.dead.inc()
            log("webhook", id=hook.id, delivery=delivery["id"], error=error, about="given up")
