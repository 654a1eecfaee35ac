"""AP-Tree figure 22b: moves against mobility, places."""

from dataclasses import replace

from bench.figures.ap_tree_fig_22a import FIGURE as TWEETS

FIGURE = replace(TWEETS, title="Within, moving: mobility, places", sizes={**TWEETS.sizes, "messages": "places_gnis_us"})
