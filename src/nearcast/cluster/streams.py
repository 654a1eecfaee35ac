"""Streams of events by address: what a run reads besides files, and how far it has read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import pyarrow as pa

from nearcast.errors import InvalidInput

REDIS, KAFKA = "redis://", "kafka://"
AT_ONCE = 10_000  # entries read, or entered, in one go


class Offset(NamedTuple):
    """How far a stream was read: in its own terms, nothing at the start, and in entries."""

    entry: str = ""
    n_read: int = 0


class Stream(Protocol):
    """Something to read events from, again and again."""

    def n_behind(self, offset: Offset) -> int:
        """How many entries stand behind an offset, at most; 0 if there are none."""

    def read(self, role: str, number: int, offset: Offset) -> Iterator[tuple[pa.Table, Offset]]:
        """What stands behind an offset, in pieces, and where each ends; `number` is the column ``file``."""


def is_stream(path: str) -> bool:
    """Does this name a stream, and not a file?"""
    return path.startswith((REDIS, KAFKA))


def stream_at(address: str) -> Stream:
    """The stream of an address, connected to."""
    if address.startswith(KAFKA):
        from nearcast.cluster.kafka_topics import KafkaTopic

        return KafkaTopic(address)
    from nearcast.cluster.redis_streams import RedisStream

    return RedisStream(address)


def name_in(path: str, address: str, form: str) -> str:
    """The name that an address ends in."""
    name = path.lstrip("/")
    if not name:
        raise InvalidInput("stream", address, f"must be {form}")
    return name
