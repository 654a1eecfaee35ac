"""AP-Tree figure 12a for long messages: places of ships and vehicles, each with 50 or 30 words of 20 newsgroups."""

from dataclasses import replace

from bench.cases.messages import LONG
from bench.claims import Ahead
from bench.figures.ap_tree_fig_12a import FIGURE as SHORT
from bench.figures.ap_tree_fig_13a import FIGURE as WORDS

FIGURE = replace(
    SHORT,
    title="Within, long messages",
    workload="200,000 boxes of 0.01 % to 1 % with 1 to 5 words, drawn from the messages; messages of 50 words at the "
    "places of ships, and of 30 words at those of vehicles; the engine alone",
    expected="AP-Tree ahead of IQ-Tree and RQ-Tree on both; IQ-Tree better than RQ-Tree on vehicles, worse on ships",
    claims=(
        Ahead("AP-Tree", ("IQ-Tree", "RQ-Tree")),
        Ahead("IQ-Tree", ("RQ-Tree",), at=("vehicles_20news",)),
        Ahead("RQ-Tree", ("IQ-Tree",), at=("ais_20news",)),
    ),
    bars=(Ahead("AP-Tree", ("two-level",)),),
    because="IQ-Tree looks for every word of a message in every cell around it, which with 30 or 50 words costs more "
    "than the rows that it saves; on ships a message has hundreds of matches, and finding these takes most of the "
    "time, for which one list for a word is as good as it gets",
    sweep=("messages", tuple(LONG)),
    series=WORDS.series,
    sizes={**SHORT.sizes, "subscriptions": 200_000, "published": 5_000, "checked": 20},
    tiny={**SHORT.tiny, "messages": ("zipf",)},
)
