"""STAMP, figure 11: against IR-trees and the R^t++-tree, by fanout, delta, tau, and the words of either side."""

from bench.cases.similar import Standing
from bench.claims import Ahead, Best, Trend
from bench.figure import Figure
from bench.figures.stamp_fig_09 import FIGURE as FILTERED

FIGURE = Figure(
    title="STAMP and its rivals",
    workload=FILTERED.workload,
    expected="STAMP wins everywhere, R^t++ is next, a hundred IR-trees beat one; the best fanout is near 5,000; time "
    "falls as tau grows and rises a little with the words of messages and subscriptions",
    claims=(
        Ahead("STAMP", ("R^t++", "IR-tree", "100 IR-trees")),
        Ahead("STAMP", ("R^t++",), times=10),
        Ahead("100 IR-trees", ("IR-tree",)),
        Best(
            ("fanout 5000",),
            ("STAMP",),
            at=("fanout 100", "fanout 500", "fanout 1000", "fanout 5000", "fanout 20000", "fanout 50000"),
        ),
        Trend("faster", ("STAMP",), at=("tau 0.5", "tau 0.6", "tau 0.7", "tau 0.8", "tau 0.9")),
        Trend("slower", ("STAMP",), at=("message_words 1", "message_words 50")),
        Trend("slower", ("STAMP",), at=("words [1,1]", "words [5,5]")),
    ),
    because="where all subscriptions have delta 0.5 few answers are left, and a word of a message finds them "
    "without a hierarchy; our R^t++ has places and reaches in its lists, which the paper does not give "
    "it; leaves are read from end to end, so that the best fanout is a tenth of the paper's",
    sweep=(
        "varied",
        (
            *("fanout 100", "fanout 500", "fanout 1000", "fanout 5000", "fanout 20000", "fanout 50000"),
            *("delta 0.1", "delta 0.3", "delta 0.5", "delta 0.7", "delta 0.9"),
            *("tau 0.5", "tau 0.6", "tau 0.7", "tau 0.8", "tau 0.9"),
            *("message_words 1", "message_words 5", "message_words 10", "message_words 20", "message_words 50"),
            *("words [1,1]", "words [2,2]", "words [3,3]", "words [4,4]", "words [5,5]"),
        ),
    ),
    series={
        "STAMP": (Standing, {"engine": "stamp"}),
        "R^t++": (Standing, {"engine": "rt++"}),
        "IR-tree": (Standing, {"engine": "ir"}),
        "100 IR-trees": (Standing, {"engine": "ir100"}),
    },
    baseline="R^t++",
    repeats=3,
    work=FILTERED.work,
    sizes=FILTERED.sizes,
    tiny={**FILTERED.tiny, "varied": ("defaults", "message_words 10")},
)
