"""Nearcast on Spark: DataFrames of messages and subscriptions in, a DataFrame of answers out.

import nearcast.spark as ns

answers = ns.answers(messages, subscriptions, space=space, window=nc.Window(age=3600), shards=4, store="s3://...")

Names are imported when they are first asked for: Spark starts several Python processes that only plan a stream, and
Numba and the kernels would take a second of each.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nearcast.spark.answer_frames import answers, rejects, updates
    from nearcast.spark.frames import ANSWERS, MESSAGES, SUBSCRIPTIONS
    from nearcast.spark.session.configure import configure
    from nearcast.spark.shard_plan import plan
    from nearcast.spark.shards.repartition import repartition
    from nearcast.spark.shards.sweep import sweep
    from nearcast.spark.stateless import match
    from nearcast.spark.weights import fit_weights

__all__ = [
    "ANSWERS",
    "MESSAGES",
    "SUBSCRIPTIONS",
    "answers",
    "configure",
    "fit_weights",
    "match",
    "plan",
    "rejects",
    "repartition",
    "sweep",
    "updates",
]

_NAMES = {
    "answer_frames": ("answers", "rejects", "updates"),
    "frames": ("ANSWERS", "MESSAGES", "SUBSCRIPTIONS"),
    "stateless": ("match",),
    "shard_plan": ("plan",),
    "session.configure": ("configure",),
    "shards.repartition": ("repartition",),
    "shards.sweep": ("sweep",),
    "weights": ("fit_weights",),
}
_MODULES = {name: f"nearcast.spark.{module}" for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name."""
    if name not in _MODULES:
        raise AttributeError(f"module 'nearcast.spark' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
