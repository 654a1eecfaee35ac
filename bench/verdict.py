"""A figure and its records become a verdict: which claims hold, and whether the bars are met.

*Reproduced*: every claim that could be judged holds. *Refuted*: nothing of any claim was seen, for no series and at no
point. *Differs*: something in between. Why it is so is written
by hand in the figure's `because`; a test refuses an explanation where nothing differs, and a difference without one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bench.claims import Claim, Found
from bench.figure import Figure
from bench.plot import latest
from bench.record import Line
from bench.seen import Seen

NOT_RECORDED = "not recorded yet"


class Judged(NamedTuple):
    """A claim and what the records say to it."""

    claim: Claim
    found: Found | None


class Verdict(NamedTuple):
    """What is to be said of a figure."""

    shape: str  # reproduced, differs, refuted, not recorded yet; empty where no paper is followed
    bars: str  # met, missed; empty where there are none
    claims: list[Judged]
    asked: list[Judged]

    @property
    def differs(self) -> bool:
        """Some claim or bar does not hold."""
        return any(judged.found is not None and not judged.found.holds for judged in (*self.claims, *self.asked))


def valid(figure: Figure, lines: Iterable[Line]) -> list[Line]:
    """The records that measured what the figure measures now."""
    return [line for line in lines if line["run"] >= figure.since]


def judge(figure: Figure, lines: Iterable[Line]) -> Verdict:
    """All claims and bars of a figure, tried on its latest lines."""
    seen = Seen(latest(lines), figure.sweep[1])
    claims = [Judged(claim, claim.judge(seen)) for claim in figure.claims]
    asked = [Judged(bar, bar.judge(seen)) for bar in figure.bars]
    return Verdict(_shape(claims), _met(asked), claims, asked)


def _shape(claims: list[Judged]) -> str:
    if not claims:
        return ""
    found = [judged.found for judged in claims if judged.found]
    if not found:
        return NOT_RECORDED
    if all(each.holds for each in found):
        return "reproduced"
    return "differs" if any(each.holds or each.partly for each in found) else "refuted"


def _met(asked: list[Judged]) -> str:
    if not asked:
        return ""
    held = [judged.found.holds for judged in asked if judged.found]
    return NOT_RECORDED if not held else "met" if all(held) else "missed"
