"""Parts of the update time: results, subscriptions that come, and that leave."""

from dataclasses import replace

from bench.cases.nearest import PLACES
from bench.figures import dkm_table_2

FIGURE = replace(
    dkm_table_2.FIGURE,
    title="DkM-SKS, table 3: parts of the time",
    expected="most of it is updating results; coming costs SOP and DkM-SKS more than KOP",
    sweep=("messages", (PLACES,)),
)
