"""What can be set about `NearestEngine`: both of its indexes, and how many spare messages results keep."""

from __future__ import annotations

from dataclasses import dataclass, field

from nearcast.engines.kept.skyband import check_strategy
from nearcast.engines.nearest.aoiq import AoiqSettings
from nearcast.engines.nearest.grid import GridSettings
from nearcast.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class NearestSettings:
    """Parameters of `Nearest`. Answers are the same for all settings.

    Parameters
    ----------
    aoiq
        Parameters of the AOIQ-tree, the index for all words.
    grid
        Parameters of the pyramid of grids, the index for any word.
    strategy, share
        How many spare messages a buffer keeps, as in `SkypeSettings`; "range" is the cost model of CkQST.
    """

    aoiq: AoiqSettings = field(default_factory=AoiqSettings)
    grid: GridSettings = field(default_factory=GridSettings)
    strategy: str = "cost"
    share: float = 0.0

    def __post_init__(self) -> None:
        for name, value, wanted in (("aoiq", self.aoiq, AoiqSettings), ("grid", self.grid, GridSettings)):
            if isinstance(value, dict):  # as a snapshot has them
                object.__setattr__(self, name, wanted(**value))
            elif not isinstance(value, wanted):
                raise InvalidInput(name, value, f"must be {wanted.__name__}")
        check_strategy(self.strategy, self.share)
