"""STAMP, figure 13 (c): the time to build the index by the number of subscriptions."""

from dataclasses import replace

from bench.cases.similar import Building
from bench.claims import Ahead
from bench.figures.stamp_fig_13 import FIGURE as MATCHING

FIGURE = replace(
    MATCHING,
    title="Building STAMP and its rivals",
    expected="time is linear; STAMP and R^t++ are built faster than the IR-trees",
    claims=(
        Ahead("STAMP", ("IR-tree", "100 IR-trees")),
        Ahead("R^t++", ("IR-tree", "100 IR-trees")),
    ),
    because="STAMP sorts every leaf for several filters; the IR-trees are loaded in bulk by sorting once",
    series={name: (Building, given) for name, (_, given) in MATCHING.series.items()},
    work={},
)
