"""AP-Tree figure 10b: matching against the partition threshold, how many subscriptions a leaf may hold."""

from dataclasses import replace

from bench.cases.within import TINY
from bench.claims import Level, Trend
from bench.figures.ap_tree_fig_10a import FIGURE as FANOUT

FIGURE = replace(
    FANOUT,
    title="AP-Tree, partition threshold",
    expected="hardly any difference below 40, slower above",
    claims=(
        Level(at=(5, 10, 20, 40), within=1.25),
        Trend("slower", at=(40, 400)),
    ),
    because="below 40 the rates differ by up to a half in one repetition on a busy machine; above, places lose "
    "little because their leaves seldom fill",
    sweep=("leaf", (5, 10, 20, 40, 100, 400)),
    tiny={**TINY, "leaf": (5,)},
)
