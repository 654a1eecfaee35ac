"""AP-Tree figure 10b: matching against the partition threshold, how many subscriptions a leaf may hold."""

from dataclasses import replace

from bench.figures.ap_tree_fig_10a import FIGURE as FANOUT

FIGURE = replace(
    FANOUT,
    title="AP-Tree, partition threshold",
    expected="hardly any difference below 40, slower above",
    sweep=("leaf", (5, 10, 20, 40, 100, 400)),
    tiny={**FANOUT.tiny, "leaf": (5,)},
)
