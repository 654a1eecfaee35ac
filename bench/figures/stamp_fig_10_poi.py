"""STAMP, figure 10, over real places."""

from dataclasses import replace

from bench.figures.stamp_fig_09_poi import FIGURE as PLACES
from bench.figures.stamp_fig_10 import FIGURE as TWEETS

FIGURE = replace(
    TWEETS,
    title="Pruning by the filters of STAMP, places",
    workload=PLACES.workload,
    sizes={**TWEETS.sizes, "messages": "poi_simplegeo_us"},
)
