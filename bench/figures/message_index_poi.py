"""The message index over real places: arrivals with expiries, and questions by words."""

from bench.figure import Figure
from bench.figures.message_index import FIGURE as SYNTHETIC

FIGURE = Figure(
    title="Message index, real places",
    workload="names and categories of 1.9 million places in the United States, in a full count window; questions as in "
    "message_index",
    expected=SYNTHETIC.expected,
    bars=SYNTHETIC.bars,
    sweep=SYNTHETIC.sweep,
    series=SYNTHETIC.series,
    repeats=SYNTHETIC.repeats,
    sizes={**SYNTHETIC.sizes, "messages": "poi_simplegeo_us"},
    tiny={**SYNTHETIC.tiny, "messages": "zipf", "window": ()},
)
