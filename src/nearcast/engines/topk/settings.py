"""Parameters of Skype, as its experiments vary them."""

from __future__ import annotations

from dataclasses import dataclass

from nearcast.engines.kept.skyband import check_strategy
from nearcast.model.checks import flag, whole


@dataclass(frozen=True, slots=True)
class SkypeSettings:
    """Parameters of the subscription index and of the buffers.

    Parameters
    ----------
    cell
        Most subscriptions of a cell.
    groups
        Into how many groups by alpha a full cell is cut.
    prune_groups
        Whether cells and groups are skipped as a whole (IGPT), or every subscription is looked at (IPT).
    strategy
        How many spare messages a buffer keeps: what the "cost" model says, up to "kmax", or down to a "ratio" of the
        k-th score.
    share
        kmax by k, or the ratio.
    """

    cell: int = 4000
    groups: int = 20
    prune_groups: bool = True
    strategy: str = "cost"
    share: float = 0.0

    def __post_init__(self) -> None:
        whole("cell", self.cell, 1)
        whole("groups", self.groups, 1)
        flag("prune_groups", self.prune_groups)
        check_strategy(self.strategy, self.share, ("cost", "kmax", "ratio"))
