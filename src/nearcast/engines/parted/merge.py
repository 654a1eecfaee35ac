"""Statistics of all parts become those of one engine."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

_OF_ALL = ("messages", "arrivals")  # every part saw the same


def merged(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sums of numbers, also inside of dictionaries and lists; what every part has in common as it is."""
    return {
        name: value if name in _OF_ALL else _sum([part.get(name, 0) for part in parts])
        for name, value in parts[0].items()
    }


def _sum(values: Sequence[Any]) -> Any:
    first = values[0]
    if isinstance(first, dict):
        return merged(values)
    if isinstance(first, list):
        return [merged([row for row in rows if row is not None]) for rows in zip_longest(*values)]
    if isinstance(first, bool):
        return any(values)
    return first if isinstance(first, str) else sum(values)
