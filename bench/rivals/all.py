"""All rivals by name."""

from __future__ import annotations

from bench.rivals.base import Rival
from bench.rivals.scan import Scan
from bench.rivals.two_level import TwoLevel

RIVALS: tuple[type[Rival], ...] = (Scan, TwoLevel)
BY_NAME = {rival.name: rival for rival in RIVALS}
