"""Options of a source or sink, as Spark passes them on: names in lower case, values as text."""

from __future__ import annotations

from collections.abc import Mapping

from nearcast.errors import InvalidInput

EARLIEST, LATEST = "earliest", "latest"
ROWS_PER_PART = 50_000  # what one task reads, unless `maxRecordsPerPartition` says otherwise


def required(options: Mapping[str, str], name: str, example: str) -> str:
    """An option that must be given."""
    value = options.get(name.lower(), "").strip()
    if not value:
        raise InvalidInput(name, None, f'is required: .option("{name}", "{example}")')
    return value


def names(options: Mapping[str, str], name: str, example: str) -> list[str]:
    """An option that must be given and names one thing or several, with commas between them."""
    found = [part.strip() for part in required(options, name, example).split(",")]
    if not all(found) or len(set(found)) < len(found):
        raise InvalidInput(name, options[name.lower()], "must name each once")
    return found


def whole(options: Mapping[str, str], name: str, default: int | None) -> int | None:
    """An option that is a whole number from 1 on."""
    value = options.get(name.lower())
    if value is None:
        return default
    try:
        number = int(value)
    except ValueError:
        number = 0
    if number < 1:
        raise InvalidInput(name, value, "must be a whole number >= 1")
    return number


def flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    """An option that is true or false."""
    value = options.get(name.lower(), str(default)).lower()
    if value not in ("true", "false"):
        raise InvalidInput(name, value, "must be true or false")
    return value == "true"


def of_client(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    """What the client itself is given: options that begin with a prefix, without it."""
    return {name[len(prefix) :]: value for name, value in options.items() if name.startswith(prefix)}
