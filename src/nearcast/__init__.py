"""Nearcast answers standing questions over a stream of geo-tagged text, at once and exactly.

Names are imported when they are first asked for: Numba and the kernels take more than a second to import, and
processes that only plan a stream, or show help, need neither.
"""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from nearcast.broker import Broker
    from nearcast.broker.ask.backtest import Backtest, backtest
    from nearcast.broker.ask.estimate import Estimate
    from nearcast.broker.ask.explain import Explanation
    from nearcast.columns.results import Results
    from nearcast.columns.updates import Updates
    from nearcast.engines.nearest.aoiq import AoiqSettings
    from nearcast.engines.nearest.grid import GridSettings
    from nearcast.engines.nearest.settings import NearestSettings
    from nearcast.engines.similar import StampSettings
    from nearcast.engines.topk import SkypeSettings
    from nearcast.engines.within import ApTreeSettings
    from nearcast.errors import (
        BrokenBroker,
        DuplicateId,
        InvalidInput,
        NearcastError,
        NearcastWarning,
        NestedCall,
        SetupError,
        SnapshotError,
        UnknownId,
    )
    from nearcast.model import (
        Analyzer,
        Box,
        Circle,
        Message,
        MultiPolygon,
        Nearest,
        Polygon,
        Reject,
        Similar,
        Subscription,
        TopK,
        Update,
        Within,
    )
    from nearcast.page.map import Map
    from nearcast.page.report import report
    from nearcast.space.space import Space
    from nearcast.text.weights import Weights
    from nearcast.window.window import Window

__all__ = [
    "Analyzer",
    "AoiqSettings",
    "ApTreeSettings",
    "Backtest",
    "Box",
    "BrokenBroker",
    "Broker",
    "Circle",
    "DuplicateId",
    "Estimate",
    "Explanation",
    "GridSettings",
    "InvalidInput",
    "Map",
    "Message",
    "MultiPolygon",
    "NearcastError",
    "NearcastWarning",
    "Nearest",
    "NearestSettings",
    "NestedCall",
    "Polygon",
    "Reject",
    "Results",
    "SetupError",
    "Similar",
    "SkypeSettings",
    "SnapshotError",
    "Space",
    "StampSettings",
    "Subscription",
    "TopK",
    "UnknownId",
    "Update",
    "Updates",
    "Weights",
    "Window",
    "Within",
    "backtest",
    "report",
]

_NAMES = {
    "broker": ("Broker",),
    "broker.ask.backtest": ("Backtest", "backtest"),
    "broker.ask.estimate": ("Estimate",),
    "broker.ask.explain": ("Explanation",),
    "columns.results": ("Results",),
    "columns.updates": ("Updates",),
    "engines.nearest.aoiq": ("AoiqSettings",),
    "engines.nearest.grid": ("GridSettings",),
    "engines.nearest.settings": ("NearestSettings",),
    "engines.similar": ("StampSettings",),
    "engines.topk": ("SkypeSettings",),
    "engines.within": ("ApTreeSettings",),
    "errors": (
        "BrokenBroker", "DuplicateId", "InvalidInput", "NearcastError", "NearcastWarning", "NestedCall", "SetupError",
        "SnapshotError", "UnknownId",
    ),
    "model": (
        "Analyzer", "Box", "Circle", "Message", "MultiPolygon", "Nearest", "Polygon", "Reject", "Similar",
        "Subscription", "TopK", "Update", "Within",
    ),
    "page.map": ("Map",),
    "page.report": ("report",),
    "space.space": ("Space",),
    "text.weights": ("Weights",),
    "window.window": ("Window",),
}  # fmt: skip
_MODULES = {name: f"nearcast.{module}" for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name, or a module of the package."""
    if name in _MODULES:
        value = globals()[name] = getattr(importlib.import_module(_MODULES[name]), name)
        return value
    if importlib.util.find_spec(f"nearcast.{name}") is not None:
        return importlib.import_module(f"nearcast.{name}")
    raise AttributeError(f"module 'nearcast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
