"""STAMP, figure 11, over real places."""

from dataclasses import replace

from bench.figures.stamp_fig_09_poi import FIGURE as PLACES
from bench.figures.stamp_fig_11 import FIGURE as TWEETS

FIGURE = replace(
    TWEETS,
    title="STAMP and its rivals, places",
    workload=PLACES.workload,
    sizes=PLACES.sizes,
    tiny={"varied": ()},
)
