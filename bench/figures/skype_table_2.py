"""Skype table 2: the mean buffer of the cost model, kmax and Skyband, among the counters."""

from dataclasses import replace

from bench.figures.skype_fig_10 import FIGURE as EXPIRIES

FIGURE = replace(
    EXPIRIES,
    title="TopK, buffers",
    workload=EXPIRIES.workload.replace("expiries alone", "arrivals and expiries"),
    expected="mean_buffer of the cost model 28 to 35, of the others 52 to 59",
    sizes={**EXPIRIES.sizes, "part": "both"},
)
