"""Messages per CPU second against the words of a prefix, m."""

from bench.cases.nearest import ALL, TINY_ALL, Watching
from bench.claims import Best
from bench.figure import Figure

FIGURE = Figure(
    title="CkQST, figure 4: words of a prefix",
    workload=(
        "500,000 subscriptions of 1 to 5 words drawn from tweets, k 20; the newest 100,000 messages live, a "
        "little off the places they were drawn from; the engine alone"
    ),
    expected="two words are best: with one lists are long, with more there are too many to look up",
    claims=(Best((2,)),),
    because="lists are blocks with a box for each row here, so that a long list costs little and looking up pairs "
    "of words costs more than it saves",
    sweep=("m", (1, 2, 3, 4, 5)),
    series={"AOIQ-tree": (Watching, {})},
    sizes=ALL,
    tiny={**TINY_ALL, "m": (1, 2, 5)},
    repeats=3,
)
