"""AP-Tree figure 24b: moves against size of boxes, places."""

from dataclasses import replace

from bench.figures.ap_tree_fig_24a import FIGURE as TWEETS

FIGURE = replace(
    TWEETS,
    title="Within, moving: size of boxes, places",
    sizes={**TWEETS.sizes, "messages": "places_gnis_us"},
    because="the rivals here file small cells and short lists in flat arrays, so that a move touches little, at "
    "several times the memory and the price of an arrival; and in these records AP+-Tree was never "
    "rebuilt for movement, so that its cost of movement had no say",
)
