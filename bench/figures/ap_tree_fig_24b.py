"""AP-Tree figure 24b: moves against size of boxes, places."""

from dataclasses import replace

from bench.figures.ap_tree_fig_24a import FIGURE as TWEETS

FIGURE = replace(
    TWEETS, title="Within, moving: size of boxes, places", sizes={**TWEETS.sizes, "messages": "places_gnis_us"}
)
