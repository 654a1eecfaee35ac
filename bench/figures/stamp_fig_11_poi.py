"""STAMP, figure 11, over real places."""

from dataclasses import replace

from bench.figures.stamp_fig_09_poi import FIGURE as PLACES
from bench.figures.stamp_fig_11 import FIGURE as TWEETS

FIGURE = replace(
    TWEETS,
    title="STAMP and its rivals, places",
    workload=PLACES.workload,
    sizes=PLACES.sizes,
    tiny={"varied": ()},
    because="where all subscriptions have delta 0.5 few answers are left, and a word of a message finds them "
    "without a hierarchy; our R^t++ has places and reaches in its lists, which the paper does not give "
    "it; leaves are read from end to end, so that the best fanout is a tenth of the paper's",
)
