"""The forms of requests and answers, and the pages made of them: OpenAPI for HTTP, AsyncAPI for what is pushed."""

from __future__ import annotations

from typing import Any

import msgspec

from nearcast import __version__
from nearcast.server.durable.operations import Answer
from nearcast.server.intake import ARROW, JSON, LINES, MessageForm
from nearcast.server.problems import MEDIA_TYPE
from nearcast.server.push.delivery import Delivery

Json = dict[str, Any]
Id = str | int


class SubscriptionForm(msgspec.Struct, omit_defaults=True):
    """A subscription; which fields it has depends on its kind."""

    kind: str
    keywords: str | list[str]
    id: Id | None = None
    region: Any = None
    lon: float | None = None
    lat: float | None = None
    delta: float | None = None
    tau: float | None = None
    measure: str | None = None
    k: int | None = None
    alpha: float | None = None
    decay: float | None = None
    match: str | None = None
    backfill: bool | None = None
    expires: int | str | None = None


class PlaceForm(msgspec.Struct, omit_defaults=True):
    """Another place for a subscription."""

    lon: float | None = None
    lat: float | None = None
    region: Any = None


class PreviewForm(msgspec.Struct):
    """What a query would have matched of the messages that are live, and how many that is an hour."""

    cursor: str
    matches: int
    per_hour: float | None


class Stored(msgspec.Struct):
    """What became of a subscription, or of a message."""

    id: Id
    cursor: str
    created: bool = False


class MatchForm(msgspec.Struct):
    """Who would hear of a message."""

    cursor: str
    subscriptions: list[Id]


class Page(msgspec.Struct):
    """Some subscriptions, and where the next ones are."""

    subscriptions: list[Any]
    next: str | None = None


class ResultsForm(msgspec.Struct):
    """A result as of a cursor: pairs of message and score, best first."""

    cursor: str
    results: list[tuple[Id, float | None]]
    messages: dict[str, Any] = {}


class UpdatesForm(msgspec.Struct):
    """Updates up to a cursor, each `[subscription, sign, message, score, ts]`."""

    u: list[tuple[Id, str, Id, float | None, int | None]]
    c: str
    messages: dict[str, Any] = {}
    more: bool = False
    ended: list[tuple[Id, str]] = []


class ExplanationForm(msgspec.Struct):
    """Why a message is, or is not, in a result."""

    cursor: str
    in_result: bool
    score: float | None
    reason: str
    parts: dict[str, Any]


class KeyForm(msgspec.Struct, forbid_unknown_fields=True):
    """A key to be made."""

    name: str
    scopes: list[str]
    prefix: str = ""
    quotas: dict[str, float] | None = None


class WebhookForm(msgspec.Struct, forbid_unknown_fields=True):
    """A webhook to be made or changed."""

    url: str
    subscriptions: list[str]
    delivery: Delivery = Delivery()
    after: str = "now"


class ProblemForm(msgspec.Struct, omit_defaults=True):
    """An error, as RFC 9457 has it."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    field: str | None = None
    value: Any = None
    rule: str | None = None
    resync: list[str] | None = None  # addresses of results to take instead, for a cursor that is gone


class Operation(msgspec.Struct):
    """One method of one address, for the page and the routes."""

    method: str
    path: str
    name: str  # of the handler
    about: str
    status: int = 200
    body: Any = None
    answer: Any = None
    kinds: tuple[str, ...] = (JSON,)
    query: tuple[str, ...] = ()
    scope: str = ""


_ROWS = (JSON, LINES[0], ARROW)
OPERATIONS = [
    Operation("POST", "/v1/messages", "publish", "Publish one message, JSON lines, or an Arrow stream.",
              202, MessageForm, Answer, _ROWS, scope="publish"),
    Operation("PUT", "/v1/messages/{id}", "update", "Let a new version take the place of a message, or publish it.",
              200, MessageForm, Stored, scope="publish"),
    Operation("DELETE", "/v1/messages/{id}", "retract", "Withdraw a message.", answer=Stored, scope="publish"),
    Operation("GET", "/v1/subscriptions", "subscriptions", "List subscriptions.", answer=Page,
              query=("limit", "next"), scope="subscribe:own"),
    Operation("POST", "/v1/subscriptions", "subscribe_many", "Register many subscriptions; taken ids are refused.",
              202, SubscriptionForm, Answer, _ROWS[:2], scope="subscribe:own"),
    Operation("GET", "/v1/subscriptions/{id}", "subscription", "One subscription.", answer=SubscriptionForm,
              scope="subscribe:own"),
    Operation("PUT", "/v1/subscriptions/{id}", "subscribe", "Register a subscription, or replace it.",
              200, SubscriptionForm, Stored, scope="subscribe:own"),
    Operation("PATCH", "/v1/subscriptions/{id}", "move", "Move a subscription.", 200, PlaceForm, Stored,
              scope="subscribe:own"),
    Operation("DELETE", "/v1/subscriptions/{id}", "unsubscribe", "End a subscription.", answer=Stored,
              scope="subscribe:own"),
    Operation("GET", "/v1/subscriptions/{id}/results", "results", "The result now.", answer=ResultsForm,
              scope="subscribe:own"),
    Operation("GET", "/v1/subscriptions/{id}/updates", "updates", "Updates after a cursor.", answer=UpdatesForm,
              query=("after", "limit"), scope="subscribe:own"),
    Operation("GET", "/v1/subscriptions/{id}/explain/{message}", "explain", "Why a message is in the result, or not.",
              answer=ExplanationForm, scope="subscribe:own"),
    Operation("POST", "/v1/preview", "preview", "What a query matches now, and expects in an hour; nothing is stored.",
              200, SubscriptionForm, PreviewForm, scope="subscribe:own"),
    Operation("POST", "/v1/match", "match", "Who would hear of a message now; nothing is stored.",
              200, MessageForm, MatchForm, scope="read"),
    Operation("POST", "/v1/events", "events", "Apply events of all sorts, in order.", 202, Any, Answer, _ROWS[:2],
              scope="admin"),
    Operation("GET", "/v1/stream", "stream", "Updates as server-sent events.",
              query=("subscriptions", "after", "every", "max_per", "quiet"), scope="subscribe:own"),
    Operation("GET", "/v1/webhooks", "webhooks", "List webhooks.", scope="subscribe:own"),
    Operation("POST", "/v1/webhooks", "add_webhook", "Make a webhook; its secret is shown this once.", 201,
              WebhookForm, scope="subscribe:own"),
    Operation("GET", "/v1/webhooks/{id}", "webhook", "One webhook.", scope="subscribe:own"),
    Operation("PATCH", "/v1/webhooks/{id}", "change_webhook", "Change its address, or switch it on again.", 200, Any,
              scope="subscribe:own"),
    Operation("DELETE", "/v1/webhooks/{id}", "remove_webhook", "Remove a webhook.", 204, scope="subscribe:own"),
    Operation("POST", "/v1/webhooks/{id}/test", "test_webhook", "Send it a test, now.", scope="subscribe:own"),
    Operation("POST", "/v1/webhooks/{id}/rotate", "rotate_webhook", "Give it another secret; both sign for a day.",
              scope="subscribe:own"),
    Operation("GET", "/v1/webhooks/{id}/deliveries", "deliveries", "Its last deliveries and dead letters.",
              scope="subscribe:own"),
    Operation("POST", "/v1/webhooks/{id}/replay", "replay_webhook", "Send its dead letters again.",
              scope="subscribe:own"),
    Operation("POST", "/v1/admin/snapshot", "snapshot", "Write a snapshot.", scope="admin"),
    Operation("POST", "/v1/admin/drain", "drain", "Take nothing more; what was taken is finished.", scope="admin"),
    Operation("GET", "/v1/admin/export", "export", "All subscriptions and live messages, as event lines or Arrow.",
              query=("rows",), scope="admin"),
    Operation("POST", "/v1/admin/import", "import_events", "Apply what an export gave.", 202, Any, Answer,
              (LINES[0], ARROW), scope="admin"),
    Operation("GET", "/v1/admin/keys", "keys", "List keys.", scope="admin"),
    Operation("POST", "/v1/admin/keys", "add_key", "Make a key; it is shown this once.", 201, KeyForm, scope="admin"),
    Operation("DELETE", "/v1/admin/keys/{id}", "remove_key", "Take a key back.", 204, scope="admin"),
    Operation("GET", "/v1/admin/slow", "slow", "The loudest subscriptions and the slowest connections.", scope="admin"),
    Operation("GET", "/healthz", "healthz", "Whether the process is alive."),
    Operation("GET", "/readyz", "readyz", "Whether it takes events and all kernels are compiled."),
    Operation("GET", "/metrics", "metrics", "Numbers for Prometheus.", scope="read"),
    Operation("GET", "/openapi.json", "openapi", "This page."),
    Operation("GET", "/asyncapi.json", "asyncapi", "The frames of /v1/ws and /v1/stream."),
]  # fmt: skip


def openapi() -> Json:
    """The page of all operations."""
    forms = {form for each in OPERATIONS for form in (each.body, each.answer) if form not in (None, Any)}
    ordered = sorted({*forms, ProblemForm}, key=lambda form: str(form.__name__))
    _, components = msgspec.json.schema_components(ordered, ref_template="#/components/schemas/{name}")
    paths: Json = {}
    for each in OPERATIONS:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Nearcast", "version": __version__},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{"key": []}, {}],
    }


def _ref(form: Any) -> Json:
    return {} if form in (None, Any) else {"$ref": f"#/components/schemas/{form.__name__}"}


def _operation(each: Operation) -> Json:
    named = [part[1:-1] for part in each.path.split("/") if part.startswith("{")]
    parameters: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in named
    ]
    parameters += [{"name": name, "in": "query", "schema": {"type": "string"}} for name in each.query]
    content = {"application/json": {"schema": _ref(each.answer)}}
    problem = {"description": "A problem.", "content": {MEDIA_TYPE: {"schema": _ref(ProblemForm)}}}
    said: Json = {"description": each.about, **({"content": content} if each.answer else {})}
    page: Json = {
        "operationId": each.name,
        "summary": each.about,
        "parameters": parameters,
        "responses": {str(each.status): said, "default": problem},
    }
    if each.scope:
        page["description"] = f"Needs the scope `{each.scope}`."
    if each.body is not None:
        bodies = {kind: {"schema": _ref(each.body) if kind != ARROW else {}} for kind in each.kinds}
        page["requestBody"] = {"required": True, "content": bodies}
    return page


_FRAMES: list[tuple[str, str, Json]] = [
    ("send", "hello", {"hello": 1, "token": "nc_..."}),
    ("send", "attach", {"attach": ["ann"], "after": "results"}),
    ("send", "detach", {"detach": ["ann"]}),
    ("send", "move", {"move": {"id": "ann", "lon": 2.35, "lat": 48.86}}),
    ("send", "ack", {"ack": "epoch.7"}),
    ("send", "ping", {"ping": 1}),
    ("receive", "welcome", {"welcome": 1, "epoch": "epoch", "cursor": "epoch.7", "heartbeat": 15}),
    ("receive", "attached", {"attached": ["ann"], "cursor": "epoch.7"}),
    ("receive", "snapshot", {"snapshot": "ann", "cursor": "epoch.7", "results": [["m1", 0.5]], "messages": {}}),
    ("receive", "updates", {"u": [["ann", "+", "m1", 0.5, 1]], "c": "epoch.8", "messages": {}}),
    ("receive", "progress", {"progress": "epoch.9"}),
    ("receive", "end", {"end": "ann", "reason": "expired"}),
    ("receive", "gap", {"gap": "ann", "from": "epoch.7", "to": "epoch.9"}),
    ("receive", "quiet", {"quiet": "ann", "seconds": 604800}),
    ("receive", "pong", {"pong": 1}),
    ("receive", "error", {"error": {"status": 410, "code": "unknown-cursor", "detail": "..."}}),
]


def asyncapi() -> Json:
    """The page of frames."""
    messages = {
        name: {"payload": {"type": "object", "required": [next(iter(example))]}, "examples": [{"payload": example}]}
        for _, name, example in _FRAMES
    }
    operations = {
        f"{action}-{name}": {
            "action": "receive" if action == "send" else "send",  # as the server sees it
            "channel": {"$ref": "#/channels/ws"},
            "messages": [{"$ref": f"#/channels/ws/messages/{name}"}],
        }
        for action, name, _ in _FRAMES
    }
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Nearcast", "version": __version__},
        "channels": {"ws": {"address": "/v1/ws", "messages": messages}},
        "operations": operations,
    }
