"""CkQST figure 7, EOPT: what an expiry costs with k messages kept, with 2 k, and with the cost-based k-skyband."""

from dataclasses import replace

from bench.cases.nearest import Expiring
from bench.claims import Ahead
from bench.figures.ckqst_fig_07 import FIGURE as BOTH

FIGURE = replace(
    BOTH,
    title="CkQST, figure 7: expiries",
    workload=f"{BOTH.workload}; expiries alone",
    expected="far cheaper with 2 k and with the k-skyband than with k only, and close to nothing for k of 10 and 20",
    claims=(Ahead("k-skyband", ("k only",), times=5), Ahead("2 k", ("k only",), times=5)),
    bars=(),
    because="",
    series={name: (Expiring, own) for name, (_, own) in BOTH.series.items()},
)
