"""Texts of an Arrow column to rows of terms, with everything that an analyzer can do."""

from bench.cases.text import Analyse
from bench.claims import AtLeast
from bench.figure import Figure

FIGURE = Figure(
    title="Texts to terms with an analyzer",
    workload="100,000 tweets as an Arrow string column, cut into batches; words are met before; everything: English "
    "stop words and stemmer, accents folded, pairs of Chinese, Japanese and Korean signs",
    expected="at least 200,000 texts a second with everything on",
    bars=(AtLeast("everything", 200_000),),
    sweep=("batch", (1_000, 10_000, 100_000)),
    series={"plain rule": (Analyse, {"analyzer": "plain"}), "everything": (Analyse, {"analyzer": "all"})},
    baseline="plain rule",
    repeats=3,
    sizes={"messages": "tweets_2021_2022", "rows": 100_000, "checked": 2_000},
    tiny={"messages": "zipf", "rows": 500, "checked": 100, "batch": (100,)},
)
