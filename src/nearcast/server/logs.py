"""Log lines: one JSON object each, on standard error."""

from __future__ import annotations

import sys
from typing import Any

import structlog

_logger = structlog.wrap_logger(
    structlog.PrintLogger(sys.stderr),
    processors=[structlog.processors.TimeStamper("iso", utc=True), structlog.processors.JSONRenderer()],
)


def log(event: str, **values: Any) -> None:
    """Write a line."""
    _logger.info(event, **values)
