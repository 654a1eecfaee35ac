"""Parameters of Skype, as its experiments vary them."""

from __future__ import annotations

from dataclasses import dataclass

from nearcast.engines.kept.skyband import check_strategy
from nearcast.errors import InvalidInput


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

    cell: int = 1000
    groups: int = 10
    prune_groups: bool = True
    strategy: str = "cost"
    share: float = 0.0

    def __post_init__(self) -> None:
        if self.cell < 1:
            raise InvalidInput("cell", self.cell, "must be >= 1")
        if self.groups < 1:
            raise InvalidInput("groups", self.groups, "must be >= 1")
        check_strategy(self.strategy, self.share)
