"""AP-Tree figure 25b: moves against scale, places."""

from dataclasses import replace

from bench.figures.ap_tree_fig_25a import FIGURE as TWEETS

FIGURE = replace(TWEETS, title="Within, moving: scale, places", sizes={**TWEETS.sizes, "messages": "places_gnis_us"})
