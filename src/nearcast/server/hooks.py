"""The handlers of `/v1/webhooks`."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from nearcast.errors import InvalidInput
from nearcast.server.access.auth import ADMIN, Caller
from nearcast.server.admin import answered, path_part
from nearcast.server.durable.state import UnknownEpoch
from nearcast.server.problems import Problem, gone
from nearcast.server.push.webhooks import Hook
from nearcast.server.schema import WebhookForm
from nearcast.server.service import Service


class Hooks:
    """Webhooks over HTTP: everybody sees their own, an admin all."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def _caller(self, request: Request) -> tuple[Caller, str | None]:
        caller = self._service.caller(request, "subscribe:own")
        return caller, None if ADMIN in caller.scopes else caller.name

    def _hook(self, request: Request) -> Hook:
        return self._service.webhooks.get(path_part(request, "id"), self._caller(request)[1])

    async def webhooks(self, request: Request) -> Response:
        """List them."""
        return answered({"webhooks": [hook.shown() for hook in self._service.webhooks.of(self._caller(request)[1])]})

    async def add_webhook(self, request: Request) -> Response:
        """Make one; its secret is shown this once."""
        caller, _ = self._caller(request)
        form = msgspec.json.decode(await request.body(), type=WebhookForm)
        if not form.subscriptions:
            raise InvalidInput("subscriptions", form.subscriptions, "must name at least one")
        state = self._service.backend.state
        for name in form.subscriptions:
            caller.require_sight(name)
            if state.bodies.subscriptions.named(name) is None:
                detail = f"there is no subscription {name!r}"
                raise Problem(404, "unknown-id", detail, field="subscriptions", value=name)
        held = len(self._service.webhooks.of(caller.name))
        self._service.quotas.hold("webhooks", caller.quotas.webhooks, held)
        try:
            cursor = state.cursor() if form.after == "now" else state.cursor(state.event_of(form.after))
        except UnknownEpoch as error:
            raise gone(error, form.subscriptions) from None
        hook, secret = self._service.webhooks.add(caller.name, form.url, form.subscriptions, form.delivery, cursor)
        return answered({**hook.shown(), "secret": secret}, 201)

    async def webhook(self, request: Request) -> Response:
        """One of them."""
        return answered(self._hook(request).shown())

    async def change_webhook(self, request: Request) -> Response:
        """Another address, or on again."""
        hook = self._hook(request)
        given: Any = msgspec.json.decode(await request.body())
        if not isinstance(given, dict) or given.keys() - {"url", "disabled"} or given.get("disabled", False):
            raise InvalidInput("webhook", given, 'must have "url", or "disabled": false')
        await self._service.webhooks.change(hook, given.get("url"), "disabled" in given)
        return answered(hook.shown())

    async def remove_webhook(self, request: Request) -> Response:
        """Forget one."""
        await self._service.webhooks.remove(self._hook(request))
        return Response(status_code=204)

    async def test_webhook(self, request: Request) -> Response:
        """Send a test, outside the order."""
        status, error, _ = await self._hook(request).send(f"msg_test_{secrets.token_hex(8)}", "test", {})
        return answered({"status": status, "error": None if 200 <= status < 300 else error})

    async def rotate_webhook(self, request: Request) -> Response:
        """Another secret."""
        return answered({"secret": self._service.webhooks.rotate(self._hook(request))})

    async def deliveries(self, request: Request) -> Response:
        """The last deliveries."""
        return answered({"deliveries": self._service.webhooks.deliveries(self._hook(request))})

    async def replay_webhook(self, request: Request) -> Response:
        """Dead letters again."""
        return answered(await self._service.webhooks.replay(self._hook(request)))
