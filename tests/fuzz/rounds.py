"""The kinds of rounds: each is a function of a seed that raises if anything is wrong."""

from __future__ import annotations

from collections.abc import Callable

from fuzz.compare_ways import crowd_round, few_round, long_round, stored_round
from fuzz.expressions import expressions_round
from fuzz.odd_arrow import odd_arrow_round
from fuzz.snapshots import snapshots_round
from fuzz.stored import is_there

ROUNDS: dict[str, Callable[[int], None]] = {
    "few": few_round,
    "crowd": crowd_round,
    "long": long_round,
    "expressions": expressions_round,
    "snapshots": snapshots_round,
    "odd_arrow": odd_arrow_round,
} | ({"stored": stored_round} if is_there() else {})
