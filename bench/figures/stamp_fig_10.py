"""STAMP, figure 10: what the filters leave to be accessed and verified; counts, so one repetition suffices."""

from dataclasses import replace

from bench.count_claims import Fewer
from bench.figures.stamp_fig_09 import FIGURE as TIMED

FIGURE = replace(
    TIMED,
    title="Pruning by the filters of STAMP",
    expected="SP, SP+HI and SP+RP+HI have the same candidates and access ever fewer subscriptions; ST accesses more "
    "and leaves fewer candidates",
    claims=(
        Fewer("accessed", "SP+HI", ("SP",), "accessed"),
        Fewer("accessed", "SP+RP+HI", ("SP+HI", "SP+RP+ST+HI"), "accessed"),
        Fewer("candidates", "SP+RP+ST+HI", ("SP+RP+HI",), "candidates"),
    ),
    repeats=3,
    sizes={**TIMED.sizes, "published": 1_000},
    tiny={"varied": ()},
)
