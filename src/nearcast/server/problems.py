"""Errors as RFC 9457 problems: one table from an error's code to a status, one JSON shape for HTTP and WebSocket."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import msgspec

from nearcast.errors import InvalidInput, NearcastError, shown
from nearcast.server.durable.state import UnknownEpoch

MEDIA_TYPE = "application/problem+json"
STATUSES = {
    "invalid-input": 422,
    "unknown-id": 404,
    "duplicate-id": 409,
    "disk-full": 507,
    "trimmed": 410,
    "unknown-cursor": 410,
    "broken-broker": 500,
    "error": 500,
}
_LINKS = 20  # in a header; the body has all


class Problem(Exception):
    """An answer that is no success.

    Parameters
    ----------
    status, code, detail
        The status of HTTP, a stable word for programs, a sentence for people.
    field, value, rule
        What was wrong, as `InvalidInput` has it.
    """

    def __init__(self, status: int, code: str, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.retry_after = more.pop("retry_after", None)
        self.more = {name: value for name, value in more.items() if value is not None}

    def body(self) -> dict[str, Any]:
        """The JSON form."""
        said = {"type": f"urn:nearcast:{self.code}", "title": self.code.replace("-", " "), "status": self.status}
        return {**said, "code": self.code, "detail": self.detail, **self.more}

    def headers(self) -> dict[str, str]:
        """What goes beside it."""
        headers = {} if self.retry_after is None else {"Retry-After": str(max(1, round(self.retry_after)))}
        if "resync" in self.more:
            headers["Link"] = ", ".join(f'<{address}>; rel="resync"' for address in self.more["resync"][:_LINKS])
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return headers


def problem_of(error: BaseException) -> Problem:
    """The problem that an error is."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, InvalidInput):
        status = STATUSES[error.code]
        return Problem(status, error.code, str(error), field=error.field, value=_plain(error.value), rule=error.rule)
    if isinstance(error, UnknownEpoch):
        detail = (
            f"the cursor {shown(error.args[0])} is of another history; take the results and go on from their cursor"
        )
        return Problem(410, "unknown-cursor", detail, field="after", value=_plain(error.args[0]))
    if isinstance(error, NearcastError):
        return Problem(STATUSES.get(error.code, 500), error.code, str(error))
    if isinstance(error, msgspec.DecodeError):
        return Problem(400, "malformed", f"the body is not what it says: {error}")
    return Problem(500, "internal", "an error of the server; its log says more")


def gone(error: BaseException, names: Iterable[str]) -> Problem:
    """The problem of a cursor that these subscriptions cannot go on from, with the addresses of their results."""
    problem = problem_of(error)
    problem.more["resync"] = [f"/v1/subscriptions/{quote(name, safe='')}/results" for name in names]
    return problem


def _plain(value: Any) -> Any:
    """A value as JSON has it, cut to a readable length."""
    return value if value is None or isinstance(value, bool | int | float) else shown(value)
