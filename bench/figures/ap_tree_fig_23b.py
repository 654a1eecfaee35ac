"""AP-Tree figure 23b: moves against velocity, places."""

from dataclasses import replace

from bench.figures.ap_tree_fig_23a import FIGURE as TWEETS

FIGURE = replace(TWEETS, title="Within, moving: velocity, places", sizes={**TWEETS.sizes, "messages": "places_gnis_us"})
