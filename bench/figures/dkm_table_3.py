"""Parts of the update time: results, subscriptions that come, and that leave."""

from dataclasses import replace

from bench.cases.nearest import PLACES
from bench.claims import Ahead
from bench.count_claims import LapOrder, LapShare
from bench.figures import dkm_table_2

FIGURE = replace(
    dkm_table_2.FIGURE,
    title="DkM-SKS, table 3: parts of the time",
    expected="most of it is updating results; coming costs SOP and DkM-SKS more than KOP",
    claims=(
        LapShare(("DkM-SKS", "KOP", "SOP"), "update", ("update", "insertion", "deletion"), 0.8),
        LapOrder("DkM-SKS", ("KOP", "PS2Stream-like"), "insertion"),
        LapOrder("SOP", ("DkM-SKS", "KOP"), "insertion"),
        Ahead("DkM-SKS", ("KOP", "SOP", "PS2Stream-like"), times=10),
    ),
    because="taking messages in and decoding newcomers is the same work for every worker and is counted for each, a "
    "large part of what DkM-SKS's busiest shard does; newcomers are filed in bulk, at nearly the same price in every "
    "index; PS2Stream's parts have our grid with words as their index",
    sweep=("messages", (PLACES,)),
    since="2026-11-18T15:30:00Z",
)
