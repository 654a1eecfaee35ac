"""Texts of an Arrow column to rows of terms, by batch size."""

from bench.cases.text import Encode, PythonLoop
from bench.claims import Ahead, AtLeast
from bench.figure import Figure

FIGURE = Figure(
    title="Texts to terms",
    workload="100,000 tweets as an Arrow string column, cut into batches; the vocabulary is warm",
    expected="flat from batches of 1,000 on, at 200,000 texts a second or more; at least 5 times the Python loop there",
    bars=(
        AtLeast("nearcast", 200_000, at=(1_000, 10_000, 100_000)),
        Ahead("nearcast", ("python loop",), times=5, at=(1_000, 10_000, 100_000)),
    ),
    sweep=("batch", (1, 100, 1_000, 10_000, 100_000)),
    series={"nearcast": (Encode, {}), "python loop": (PythonLoop, {"rows": 10_000})},
    baseline="python loop",
    sizes={"messages": "tweets_2021_2022", "rows": 100_000, "checked": 2_000},
    tiny={"messages": "zipf", "rows": 500, "checked": 100, "batch": (100,)},
)
