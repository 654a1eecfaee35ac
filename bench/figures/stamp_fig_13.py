"""STAMP, figure 13 (a) and (b): matching time and size of the index by the number of subscriptions."""

from dataclasses import replace

from bench.claims import Ahead, GrowthAtMost
from bench.count_claims import Fewer
from bench.figures.stamp_fig_11 import FIGURE as MATCHING

FIGURE = replace(
    MATCHING,
    title="STAMP and its rivals at scale",
    expected="STAMP wins and grows less than linearly; STAMP and R^t++ need less room than the IR-trees",
    claims=(
        Ahead("STAMP", ("R^t++", "IR-tree", "100 IR-trees")),
        GrowthAtMost(("STAMP",), 5, (200_000, 1_000_000)),
        Fewer("bytes", "STAMP", ("IR-tree", "100 IR-trees"), "index_bytes"),
    ),
    sweep=("subscriptions", (200_000, 400_000, 600_000, 800_000, 1_000_000)),
    sizes={**MATCHING.sizes, "published": 1_000},
    work={**MATCHING.work, "bytes of the index a subscription": ("index_bytes", "")},
    tiny={"subscriptions": ()},
)
