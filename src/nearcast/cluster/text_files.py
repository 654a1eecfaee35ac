"""Text files as bytes, unpacked where their name ends in .gz."""

from __future__ import annotations

import gzip
import zlib
from typing import IO, cast

TEXT_ERRORS = (EOFError, OSError, zlib.error)  # what a file that breaks off, or was packed wrongly, raises


def open_bytes(path: str) -> IO[bytes]:
    """The file, to be read line by line."""
    return cast("IO[bytes]", gzip.open(path, "rb") if path.lower().endswith(".gz") else open(path, "rb"))
