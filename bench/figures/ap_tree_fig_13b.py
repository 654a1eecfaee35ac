"""AP-Tree figure 13b: matching against the number of words of a subscription, places."""

from dataclasses import replace

from bench.figures.ap_tree_fig_13a import FIGURE as TWEETS

FIGURE = replace(TWEETS, title="Within, number of words: places", sizes={**TWEETS.sizes, "messages": "places_gnis_us"})
