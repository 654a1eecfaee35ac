"""What the command lines of `run` and `plan` have in common."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from nearcast.cluster.pipeline import WORLD
from nearcast.cluster.sources import FORMATS
from nearcast.errors import InvalidInput

SEVERAL: Any = {"nargs": "+", "action": "extend", "default": [], "metavar": "PATH"}  # one or more paths


def parser_of(command: str, description: str, epilog: str) -> argparse.ArgumentParser:
    """A command without options so far."""
    shape = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(prog=command, description=description, epilog=epilog, formatter_class=shape)


def add_format(group: argparse._ArgumentGroup) -> None:
    """How files are read."""
    group.add_argument("--format", choices=FORMATS, help="read every file as this, whatever its name ends in")


def add_space(group: argparse._ArgumentGroup) -> None:
    """Where everything lies."""
    add = group.add_argument
    add("--space", metavar="W,S,E,N", help="bounds where most places lie (default: the world, -180,-90,180,90)")
    add("--metric", choices=("haversine", "euclidean"), default="haversine",
        help="degrees and metres, or plain coordinates (default: haversine)")  # fmt: skip
    add("--max-distance", type=float, metavar="D", help="where spatial similarity is 0 (default: the bounds' diagonal)")


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
