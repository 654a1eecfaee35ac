"""Frames of bytes in a file: `{length, crc32c, event number, payload}`, read back up to the first that is damaged."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import google_crc32c

HEADER = struct.Struct("<IIQ")  # length of the payload, checksum of event number and payload, event number
_EVENT = struct.Struct("<Q")


class Frame(NamedTuple):
    """One frame: its event number, its payload, and where the next one starts."""

    event: int
    payload: memoryview
    end: int


def encode(event: int, payload: bytes) -> bytes:
    """The bytes of a frame."""
    return HEADER.pack(len(payload), _checksum(event, payload), event) + payload


def _checksum(event: int, payload: bytes | memoryview) -> int:
    checksum: int = google_crc32c.extend(google_crc32c.value(_EVENT.pack(event)), bytes(payload))
    return checksum


def read(content: memoryview, start: int) -> Iterator[Frame]:
    """The frames from `start` on, up to zeros, a torn frame, or a checksum that does not hold."""
    at = start
    while at + HEADER.size <= len(content):
        length, checksum, event = HEADER.unpack_from(content, at)
        end = at + HEADER.size + length
        if length == 0 or end > len(content):
            return
        payload = content[at + HEADER.size : end]
        if _checksum(event, payload) != checksum:
            return
        yield Frame(event, payload, end)
        at = end
