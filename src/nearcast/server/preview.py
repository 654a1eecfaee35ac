"""Before subscribing: what a query matches now and would tell, and the refusal of those that tell too much."""

from __future__ import annotations

from typing import Any

from nearcast.model.codec import subscription_from_json
from nearcast.model.query import Query
from nearcast.server.access.auth import Caller
from nearcast.server.backend import Backend
from nearcast.server.problems import Problem
from nearcast.server.schema import PreviewForm


async def preview(backend: Backend, given: Any) -> PreviewForm:
    """The estimate of a query in the JSON form; an id is not needed.

    Raises
    ------
    InvalidInput
        For a query that cannot be honoured, and without a window.
    """
    query = subscription_from_json({"id": "preview", **given} if isinstance(given, dict) else given).query
    found, cursor = await backend.ask(lambda broker: broker.estimate(query))
    return PreviewForm(cursor, found.matches, found.per_hour)


async def require_modest(backend: Backend, caller: Caller, query: Query) -> None:
    """Refuse a query that is expected to tell more in an hour than the caller may ask for."""
    most = caller.quotas.hits_per_hour
    if most is None:
        return
    found, _ = await backend.ask(lambda broker: broker.estimate(query))
    if found.per_hour is not None and found.per_hour > most:
        detail = f"the query is expected to have {found.per_hour:.0f} hits an hour, and {most:g} are allowed"
        raise Problem(409, "too-broad", detail, field="hits_per_hour", value=found.per_hour)
