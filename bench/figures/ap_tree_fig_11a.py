"""AP-Tree figure 11a: matching with variants of the tree, and with a trie over quadtrees."""

from bench.cases.within import DATA, SIZES, STILL, TINY, Standing
from bench.claims import Ahead
from bench.figure import Figure

VARIANTS = {
    "HR": STILL,
    "DP": {**STILL, "partition": "optimal"},
    "KPriority": {**STILL, "priority": "keyword"},
    "SPriority": {**STILL, "priority": "space"},
    "Trie-Qd": {"engine": "trie_qd"},
}

FIGURE = Figure(
    title="AP-Tree, variants: matching",
    workload="200,000 boxes of 0.001 % with 1 to 5 words; the engine alone",
    expected="DP and HR alike and ahead of all others",
    claims=(
        Ahead("HR", ("DP",), times=0.8),
        Ahead("HR", ("KPriority", "SPriority", "Trie-Qd")),
    ),
    because="where boxes are small and places lie apart (zipf) space decides almost alone, and putting it first "
    "costs nothing; the choice by cost pays for estimates",
    sweep=("messages", DATA),
    series={name: (Standing, own) for name, own in VARIANTS.items()},
    repeats=3,
    baseline="HR",
    sizes={**SIZES, "area": 1e-5},
    tiny={**TINY, "messages": ("zipf",), "area": 0.01},
)
