"""What can be set about `SimilarStamp`: the size of a region, which filters are on, and how candidates are verified."""

from __future__ import annotations

from dataclasses import dataclass

from nearcast.model.checks import one_of, whole

FILTERS = ("SP", "SP+HI", "SP+RP+HI", "SP+ST+HI", "SP+RP+ST+HI")  # the combinations that the paper measures
STRATEGIES = ("cost", "verify", "filter")


@dataclass(frozen=True, slots=True)
class StampSettings:
    """How subscriptions are filed and candidates are verified. Answers are the same for all settings.

    Parameters
    ----------
    fanout
        Most subscriptions of a leaf region before it is split (8 to 65,535).
    filters
        One of `FILTERS`: the spatial-oriented prefix (SP), with regions (HI), with region-aware prefixes (RP), with
        spatio-textual prefixes (ST).
    strategy
        What becomes of the candidates of a leaf: "verify" them at once, "filter" them by the spatio-textual prefixes
        first, or what seems to "cost" less.
    """

    fanout: int = 1024
    filters: str = "SP+RP+ST+HI"
    strategy: str = "cost"

    def __post_init__(self) -> None:
        whole("fanout", self.fanout, 8, 65535)
        one_of("filters", self.filters, FILTERS)
        one_of("strategy", self.strategy, STRATEGIES)

    @property
    def regions(self) -> bool:
        """Are subscriptions filed by region?"""
        return "HI" in self.filters

    @property
    def region_prefixes(self) -> bool:
        """Are lists cut into what a message outside the region needs and what only one inside needs?"""
        return "RP" in self.filters

    @property
    def text_prefixes(self) -> bool:
        """Are later words filed too, so that candidates can be filtered further?"""
        return "ST" in self.filters
