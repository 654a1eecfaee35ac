"""AP-Tree figure 10a: matching against the fanout f of the tree."""

from bench.cases.within import DATA, SIZES, STILL, TINY, Standing
from bench.claims import Best
from bench.figure import Figure

FIGURE = Figure(
    title="AP-Tree, fanout",
    workload="200,000 boxes of 0.01 % to 1 % with 1 to 5 words, drawn from the messages of each data set; the engine "
    "alone",
    expected="flat around f = 200: a small fanout wastes keyword nodes, a large one adapts badly",
    claims=(Best((100, 200, 400)),),
    sweep=("fanout", (50, 100, 200, 400, 800)),
    series={name: (Standing, {"messages": name}) for name in DATA},
    repeats=3,
    sizes={**SIZES, **STILL},
    tiny={**TINY, "fanout": (50,)},
)
