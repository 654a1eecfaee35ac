"""The records of a CSV file become JSON objects; CSV has no types, so columns are read as their names ask.

A record may span lines inside quotes. A quote that is never closed costs the line that opens it and no more.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

_FLOATS = ("lon", "lat", "delta", "tau", "alpha", "decay", "min_lon", "min_lat", "max_lon", "max_lat")
_INTS = ("ts", "expires", "k")
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_RECORD_LINES = 1_000  # a quoted field that spans more lines than this was never closed
_OPEN_QUOTE = "row must close its quotes"


class Record(NamedTuple):
    """A record, or what is wrong with it."""

    row: int  # the number of its first line
    raw: str
    values: list[str]
    problem: str | None


def csv_rows(lines: Iterable[bytes], whole_ids: bool) -> Iterator[tuple[int, str, dict[str, Any] | None, str | None]]:
    """The rows of a file with a header: number, text, JSON object, and what is wrong.

    `whole_ids`: ids that are written as whole numbers are numbers.
    """
    header: list[str] | None = None
    for row, raw, values, problem in _records(lines):
        if problem is not None:
            yield row, raw, None, problem
        elif header is None:
            header = [name.strip() for name in values]
        elif len(values) != len(header):
            yield row, raw, None, f"row must have {len(header)} values, as the header has, got {len(values)}"
        else:
            yield row, raw, _typed(dict(zip(header, values, strict=True)), whole_ids), None


def is_whole(text: str) -> bool:
    """Is this how a 64-bit integer is written, without leading zeros?"""
    return _WHOLE.fullmatch(text) is not None and -(2**63) <= int(text) < 2**63


def _records(lines: Iterable[bytes]) -> Iterator[Record]:
    pending: list[tuple[int, str]] = []  # the lines of a record whose quote is still open, and lines to look at again
    numbered = ((row, line.decode("utf-8", "surrogateescape")) for row, line in enumerate(lines, 1))
    while True:
        text, n_lines = "", 0
        values: list[str] = []
        problem = None
        while True:
            if n_lines == len(pending):
                line = next(numbered, None)
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
            yield Record(row, text.rstrip("\r\n"), values, problem)


def _parsed(text: str) -> tuple[list[str], str | None]:
    if '"' not in text and "\r" not in text.rstrip("\r\n"):
        return text.rstrip("\r\n").split(","), None
    try:
        return next(csv.reader([text], strict=True)), None
    except csv.Error as error:
        open_quote = "unexpected end of data" in str(error)
        return [], _OPEN_QUOTE if open_quote else f"row must be CSV: {error}"


def _typed(fields: dict[str, str], whole_ids: bool) -> dict[str, Any]:
    """The JSON form of a CSV row; a value that is not what its column asks for stays text, and is then refused."""
    value: dict[str, Any] = {}
    for name, text in fields.items():
        if text == "":
            continue
        if name in _FLOATS:
            value[name] = _converted(float, text)
        elif name in _INTS:
            value[name] = _converted(int, text)
        elif name == "id":
            value[name] = int(text) if whole_ids and is_whole(text) else text
        elif name == "backfill" and text.lower() in ("true", "false"):
            value[name] = text.lower() == "true"
        elif (name == "keywords" and text.startswith("[")) or (name == "region" and text[:1] in ("[", "{")):
            value[name] = _converted(json.loads, text)
        else:
            value[name] = text
    if "text" in fields and "text" not in value and "keywords" not in value and "kind" not in value:
        value["text"] = ""
    return value


def _converted(convert: Callable[[str], Any], text: str) -> Any:
    try:
        return convert(text)
    except (ValueError, RecursionError):
        return text
