"""What the command lines of `run` and `plan` have in common."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from nearcast.cli.parser import Parser
from nearcast.errors import InvalidInput
from nearcast.model.analyzer import ACCENTS, CJK, Analyzer
from nearcast.partition.partition import SplitSettings
from nearcast.spark.run.files import FORMATS
from nearcast.spark.run.job import WORLD

SEVERAL: Any = {"nargs": "+", "action": "extend", "default": [], "metavar": "PATH"}  # one or more paths


def parser_of(command: str, description: str, epilog: str) -> argparse.ArgumentParser:
    """A command without options so far."""
    shape = argparse.RawDescriptionHelpFormatter
    return Parser(prog=command, description=description, epilog=epilog, formatter_class=shape)


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


def add_analyzer(add: Callable[..., Any]) -> None:
    """What becomes of words."""
    add("--stop-words", metavar="LANGUAGE", help="leave out the commonest words of a language, such as english")
    add("--stemmer", metavar="LANGUAGE", help="cut words to their stems as Snowball does for a language: fires, fire")
    add("--accents", choices=ACCENTS, help="fold: compare letters without accents (default: keep)")
    add("--cjk", choices=CJK,
        help="bigrams: cut runs of Han, Kana and Hangul into overlapping pairs (default: whole)")  # fmt: skip


def analyzer_of(args: argparse.Namespace) -> Analyzer:
    """The analyzer that these options ask for.

    Raises
    ------
    InvalidInput
        For a language that there is not.
    """
    return Analyzer(args.stop_words, args.stemmer, args.accents or "keep", args.cjk or "whole")


def add_split(add: Callable[..., Any]) -> None:
    """How finely subscriptions are cut before shards take them."""
    known = SplitSettings()
    add("--theta", type=int, default=known.theta, metavar="N",
        help=f"by space: cut subscriptions into at least N sets of neighbours for each shard; the more sets, the more "
             f"even, and the fewer neighbours are together (default: {known.theta})")  # fmt: skip
    add("--gamma1", type=int, default=known.gamma1, metavar="N",
        help=f"DkM-SKS: cut them into at least N sets for each shard, whose members are then dealt out one by one "
             f"(default: {known.gamma1})")  # fmt: skip
    add("--gamma2", type=int, default=known.gamma2, metavar="N",
        help=f"DkM-SKS: cut sets of at most N subscriptions by cost where that is better than by place, larger ones "
             f"always by place (default: {known.gamma2})")  # fmt: skip


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
