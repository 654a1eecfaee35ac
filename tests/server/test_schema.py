"""The OpenAPI page says what the server does: requests made from it, answers checked against it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import checks

from nearcast.server.durable.operations import to_ipc
from nearcast.server.schema import openapi
from server.serving import WITHIN, Running, running

# They last, stop the server, make it ask for a key, or go out to others.
LEFT_OUT = ["stream", "drain", "snapshot", "add_key", "test_webhook", "replay_webhook"]
EXAMPLES = 12  # of each operation
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("schema")) as server:
        server.put("w", WITHIN)
        server.publish("m", 1)
        server.service.is_warm = True  # else /readyz is 503, rightly
        yield server


@schemathesis.serializer("application/x-ndjson")
def as_lines(_: Any, value: Any) -> bytes:
    rows = value if isinstance(value, list) else [value]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@schemathesis.serializer("application/vnd.apache.arrow.stream")
def as_arrow(_: Any, value: Any) -> bytes:
    """A table of one row where the value is an object, and bytes that are no Arrow where it is none."""
    try:
        return to_ipc(pa.Table.from_pylist([value]))
    except (AttributeError, TypeError, pa.ArrowException, OverflowError):
        return json.dumps(value).encode()


page = schemathesis.openapi.from_dict(openapi())


@page.exclude(operation_id=LEFT_OUT).parametrize()
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_answers_are_as_the_page_says(case: Any, server: Running) -> None:
    case.call_and_validate(base_url=server.address, checks=CHECKS, timeout=300)
