"""What the command lines of `run` and `plan` have in common."""

from __future__ import annotations

from collections.abc import Sequence

from nearcast.cluster.pipeline import WORLD
from nearcast.errors import InvalidInput


def joined(argv: Sequence[str]) -> list[str]:
    """Tie `--space` to its value, which may begin with a minus sign."""
    words: list[str] = []
    for word in argv:
        if words and words[-1] == "--space":
            words[-1] = f"--space={word}"
        else:
            words.append(word)
    return words


def bounds_of(text: str | None) -> tuple[float, ...]:
    """The bounds that `--space` asks for; the world by default."""
    if text is None:
        return WORLD
    try:
        bounds = tuple(float(part) for part in text.split(","))
    except ValueError:
        bounds = ()
    if len(bounds) != 4:
        raise InvalidInput("--space", text, "must be four numbers: min_lon,min_lat,max_lon,max_lat")
    return bounds
