"""The rows of a CSV file become JSON objects for a decoder; CSV has no types, so columns are read as their names ask.

A record may span lines inside quotes. A quote that is never closed costs the line that opens it and no more.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from nearcast.cluster.decode import MESSAGES, SUBSCRIPTIONS, Decoder
from nearcast.cluster.schema import EVENT_NAMES
from nearcast.cluster.text_files import TEXT_ERRORS, open_bytes

_FLOATS = ("lon", "lat", "delta", "tau", "alpha", "min_lon", "min_lat", "max_lon", "max_lat")
_INTS = ("ts", "expires", "k")
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_RECORD_LINES = 1_000  # a quoted field that spans more lines than this was never closed
_OPEN_QUOTE = "row must close its quotes"


def fill_csv(path: str, role: str, decoder: Decoder) -> Iterator[None]:
    """Decode a CSV file with a header; yields after every row."""
    whole_ids = _id_types(path, role)
    header: list[str] | None = None
    for row, raw, values, problem in records(path):
        if problem is not None:
            decoder.refuse(row, raw, "file" if values is None else "row", problem)
        elif header is None:
            header = [name.strip() for name in values or ()]
            continue
        elif len(values or ()) != len(header):
            reason = f"row must have {len(header)} values, as the header has, got {len(values or ())}"
            decoder.refuse(row, raw, "row", reason)
        else:
            fields = dict(zip(header, values or (), strict=True))
            decoder.add(row, raw, _typed(fields, role, whole_ids[_is_message(fields, role)]))
        yield


def records(path: str) -> Iterator[tuple[int, str, list[str] | None, str | None]]:
    """The records of a CSV file: (line number, text, values, problem); on a problem with the file, values are None."""
    pending: list[tuple[int, str]] = []  # the lines of a record whose quote is still open, and lines to look at again
    lines = _numbered_lines(path)
    try:
        while True:
            text, n_lines = "", 0
            while True:
                if n_lines == len(pending):
                    line = next(lines, None)
                    if line is None:
                        break
                    pending.append(line)
                text += pending[n_lines][1]
                n_lines += 1
                values, problem = _parsed(text)
                if problem != _OPEN_QUOTE or n_lines >= _RECORD_LINES:
                    break
            if n_lines == 0:
                return
            if problem is not None and n_lines > 1:  # refuse the line that opens a quote, and go on behind it
                text, n_lines, problem = pending[0][1], 1, _OPEN_QUOTE
            row = pending[0][0]
            del pending[:n_lines]
            if text.strip():
                yield row, text.rstrip("\r\n"), values if problem is None else [], problem
    except TEXT_ERRORS as error:
        yield (pending[0][0] if pending else 0), "", None, f"file must be readable to its end: {error}"


def _parsed(text: str) -> tuple[list[str], str | None]:
    if '"' not in text and "\r" not in text.rstrip("\r\n"):
        return text.rstrip("\r\n").split(","), None
    try:
        return next(csv.reader([text], strict=True)), None
    except csv.Error as error:
        open_quote = "unexpected end of data" in str(error)
        return [], _OPEN_QUOTE if open_quote else f"row must be CSV: {error}"


def _numbered_lines(path: str) -> Iterator[tuple[int, str]]:
    with open_bytes(path) as lines:
        for row, line in enumerate(lines, 1):
            if row == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            yield row, line.decode("utf-8", "surrogateescape")  # the decoder refuses what is no text


def _id_types(path: str, role: str) -> dict[bool, bool]:
    """Whether all ids of the file's messages (True) and subscriptions (False) are whole numbers.

    CSV has no types. Ids are read as integers only if every one of the file is written as one, without leading zeros.
    """
    whole = {True: True, False: True}
    header: list[str] | None = None
    for _, _, values, problem in records(path):
        if problem is not None:
            continue
        if header is None:
            header = [name.strip() for name in values or ()]
        elif len(values or ()) == len(header):
            fields = dict(zip(header, values or (), strict=True))
            if fields.get("id") and not _is_whole(fields["id"]):
                whole[_is_message(fields, role)] = False
    return whole


def _is_whole(text: str) -> bool:
    return _WHOLE.fullmatch(text) is not None and -(2**63) <= int(text) < 2**63


def _is_message(fields: dict[str, str], role: str) -> bool:
    named = fields.get("event", "")
    if named in EVENT_NAMES:
        return named == "publish"
    return role == MESSAGES or (role != SUBSCRIPTIONS and not fields.get("kind"))


def _typed(fields: dict[str, str], role: str, whole_id: bool) -> dict[str, Any]:
    """The JSON form of a CSV row; a value that is not what its column asks for stays text, and the decoder names it."""
    value: dict[str, Any] = {}
    for name, text in fields.items():
        if text == "":
            continue
        if name in _FLOATS:
            value[name] = _converted(float, text)
        elif name in _INTS:
            value[name] = _converted(int, text)
        elif name == "id":
            value[name] = int(text) if whole_id else text
        elif name == "backfill" and text.lower() in ("true", "false"):
            value[name] = text.lower() == "true"
        elif name == "keywords" and text.startswith("["):
            value[name] = _converted(json.loads, text)
        else:
            value[name] = text
    if "text" in fields and "text" not in value and "keywords" not in value and _is_message(fields, role):
        value["text"] = ""
    return value


def _converted(convert: Callable[[str], Any], text: str) -> Any:
    try:
        return convert(text)
    except (ValueError, RecursionError):
        return text
