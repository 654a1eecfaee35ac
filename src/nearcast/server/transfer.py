"""Export and import: all subscriptions and live messages, as event lines or as Arrow tables."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from nearcast.errors import InvalidInput
from nearcast.server import intake
from nearcast.server.admin import answered
from nearcast.server.durable.operations import MESSAGES, Answer, Json, Part, plain_row, to_ipc
from nearcast.server.problems import Problem
from nearcast.server.service import Service

_TEXTS = ("keywords", "region")  # fields of a subscription that are JSON in a column of strings, if they are no string
_ROWS = ("messages", "subscriptions")


class Transfer:
    """The handlers of `/v1/admin/export` and `/v1/admin/import`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def export(self, request: Request) -> Response:
        """What makes the same subscriptions and messages in another server."""
        self._service.caller(request, "admin")
        bodies = self._service.backend.state.bodies
        subscriptions, tables = list(bodies.subscriptions.all()), list(bodies.messages.to_tables())
        if intake.ARROW not in request.headers.get("accept", ""):
            return StreamingResponse(_lines(tables, subscriptions), media_type=intake.LINES[0])
        rows = request.query_params.get("rows")
        if rows not in _ROWS:
            raise InvalidInput("rows", rows, "must be messages or subscriptions")
        table = message_table(tables) if rows == "messages" else subscription_table(subscriptions)
        return Response(to_ipc(table), media_type=intake.ARROW)

    async def import_events(self, request: Request) -> Response:
        """Apply what an export gave as it comes, some thousand rows at a time."""
        self._service.caller(request, "admin")
        kind = intake.media_type(request.headers.get("content-type"))
        pieces = self._arrow(request) if kind == intake.ARROW else self._chunks(request)
        total, first = Answer("", 0), 0
        async for taken in pieces:
            answer = await self._service.submit(taken.parts, taken.rejects)
            total = _added(total, answer, first)
            first += taken.n_rows
        return answered(total, 202)

    async def _chunks(self, request: Request) -> AsyncIterator[intake.Taken]:
        most, waiting, rest = self._service.config.max_rows, list[bytes](), b""
        async for chunk in request.stream():
            *lines, rest = (rest + chunk).split(b"\n")
            waiting += [line for line in lines if line.strip()]
            while len(waiting) >= most:
                yield _events(waiting[:most])
                waiting = waiting[most:]
        yield _events([*waiting, *([rest] if rest.strip() else [])])

    async def _arrow(self, request: Request) -> AsyncIterator[intake.Taken]:
        table = intake.arrow_table(await request.body())
        is_messages = "kind" not in table.schema.names
        table = intake.message_columns(table) if is_messages else table
        most = self._service.config.max_rows
        for first in range(0, table.num_rows, most):
            piece = table.slice(first, most)
            if is_messages:
                yield intake.Taken([Part(piece, piece.num_rows)], [], piece.num_rows)
            else:
                yield _events([msgspec.json.encode(_subscription(row)) for row in piece.to_pylist()])


def _events(lines: list[bytes]) -> intake.Taken:
    return intake.events(b"\n".join(lines), intake.LINES[0], len(lines))


def _added(total: Answer, answer: Answer, first: int) -> Answer:
    """An answer after those before it; rows count through all of them."""
    late, rejects = (
        [{**reject, "row": reject["row"] + first} for reject in rows] for rows in (answer.late, answer.rejects)
    )
    return Answer(answer.cursor, total.accepted + answer.accepted, total.late + late, total.rejects + rejects)


def _lines(tables: list[pa.Table], subscriptions: list[bytes]) -> Iterator[bytes]:
    for table in tables:
        for row in table.to_pylist():
            yield msgspec.json.encode({"event": "publish", **plain_row(row)}) + b"\n"
    for body in subscriptions:
        yield b'{"event":"subscribe",' + body[1:] + b"\n"


def message_table(tables: list[pa.Table]) -> pa.Table:
    """All messages as one table, in the columns of the JSON form."""
    rows = [row for table in tables for row in table.to_pylist()]
    fields = list(MESSAGES)
    if rows and all(isinstance(row["id"], int) for row in rows):
        fields[0] = pa.field("id", pa.int64())
    try:
        return pa.Table.from_pylist(rows, pa.schema(fields))
    except pa.ArrowException as error:
        raise Problem(406, "media-type", f"the messages do not fit one table; ask for lines ({error})") from None


def subscription_table(subscriptions: list[bytes]) -> pa.Table:
    """All subscriptions as one table; what is no plain value is JSON."""
    rows: list[Json] = [msgspec.json.decode(body) for body in subscriptions]
    for row in rows:
        for name in _TEXTS:
            if row.get(name) is not None and not isinstance(row[name], str):
                row[name] = msgspec.json.encode(row[name]).decode()
    names = dict.fromkeys(name for row in rows for name in row)
    try:
        return pa.table({name: [row.get(name) for row in rows] for name in names or ("id", "kind")})
    except pa.ArrowException as error:
        raise Problem(406, "media-type", f"the subscriptions do not fit one table; ask for lines ({error})") from None


def _subscription(row: Json) -> dict[str, Any]:
    plain = {name: value for name, value in row.items() if value is not None}
    for name in _TEXTS:
        if isinstance(plain.get(name), str) and plain[name][:1] in ("[", "{"):
            plain[name] = msgspec.json.decode(plain[name])
    return {"event": "subscribe", **plain}
