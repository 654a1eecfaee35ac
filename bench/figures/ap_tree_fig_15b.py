"""AP-Tree figure 15b: matching against the number of subscriptions, places."""

from dataclasses import replace

from bench.figures.ap_tree_fig_15a import FIGURE as TWEETS

FIGURE = replace(
    TWEETS,
    title="Within, number of subscriptions: places",
    sizes={**TWEETS.sizes, "messages": "places_gnis_us"},
    because="words of places are so selective that every index is cheap at 200,000 and the tree's lead shrinks; "
    "it stays ahead",
)
