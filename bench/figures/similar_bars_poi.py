"""The bars of `Similar` over real places."""

from dataclasses import replace

from bench.figures.similar_bars import FIGURE as TWEETS
from bench.figures.stamp_fig_09_poi import FIGURE as PLACES

FIGURE = replace(
    TWEETS,
    title="Similar, a million subscriptions, places",
    workload="as in similar_bars, over names and categories of places in the United States",
    sizes={**TWEETS.sizes, "messages": PLACES.sizes["messages"]},
    because="bytes are above the bar only where all subscriptions share one delta and tau and all of their words "
    "are filed",
)
