"""AP-Tree figure 14b: matching against the size of the boxes, places."""

from dataclasses import replace

from bench.figures.ap_tree_fig_14a import FIGURE as TWEETS

FIGURE = replace(TWEETS, title="Within, size of boxes: places", sizes={**TWEETS.sizes, "messages": "places_gnis_us"})
