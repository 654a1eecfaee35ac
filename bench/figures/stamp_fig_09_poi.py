"""STAMP, figure 9, over real places."""

from dataclasses import replace

from bench.figures.stamp_fig_09 import FIGURE as TWEETS

FIGURE = replace(
    TWEETS,
    title="Filters of STAMP, places",
    workload="as in stamp_fig_09, over names and categories of places in the United States",
    sizes={**TWEETS.sizes, "messages": "poi_simplegeo_us"},
    tiny={"varied": ()},
    because="the hierarchy of regions is what counts; the other filters lower what is looked at (figure 10), and "
    "the time by less than one repetition on a busy machine shows; with delta 0.5 few answers are left",
)
