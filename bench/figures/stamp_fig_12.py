"""STAMP, figure 12 (a): what it costs to insert a tenth more subscriptions, by how many there are."""

from dataclasses import replace

from bench.cases.similar import Inserting
from bench.claims import Ahead
from bench.figures.stamp_fig_11 import FIGURE as MATCHING

FIGURE = replace(
    MATCHING,
    title="Inserting into STAMP and its rivals",
    workload="subscriptions as in stamp_fig_09, the last tenth by 10,000 at a time, without a broker",
    expected="STAMP and R^t++ insert about as fast as each other, and faster than the IR-trees, whose words are in "
    "several nodes",
    claims=(
        Ahead("STAMP", ("R^t++",), times=0.67),
        Ahead("STAMP", ("IR-tree", "100 IR-trees")),
    ),
    because="leaves of STAMP are kept sorted for several filters, where R^t++ appends to a list; the IR-trees are "
    "loaded in bulk and do not split",
    sweep=("subscriptions", (200_000, 400_000, 600_000, 800_000)),
    series={name: (Inserting, given) for name, (_, given) in MATCHING.series.items()},
    work={},
    tiny={**MATCHING.tiny, "varied": "defaults", "subscriptions": (1_000,)},
)
