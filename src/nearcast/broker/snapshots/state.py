"""A broker as arrays and plain values: what a snapshot of it holds, and how it is loaded again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.broker.engines import settings_state
from nearcast.broker.parts import Parts
from nearcast.broker.vacuum import Vacuum
from nearcast.columns.arena import State
from nearcast.model.analyzer import Analyzer
from nearcast.space.space import Space
from nearcast.window.window import Window


class Outline(NamedTuple):
    """What a broker is made with, besides engines and weights."""

    space: Space
    window: Window | None
    analyzer: Analyzer
    limit: float | None  # matches an hour
    threads: int


def state_of(outline: Outline, parts: Parts, vacuum: Vacuum) -> State:
    """All that a snapshot must hold."""
    space, window, analyzer, limit, threads = outline
    return {
        "space": {"bounds": np.array(space.bounds), "metric": space.metric, "max_distance": space.max_distance},
        "window": None if window is None else {"count": window.count, "age": window.age, "max_ahead": window.max_ahead},
        "analyzer": analyzer.state(),
        "max_matches_per_hour": -1.0 if limit is None else limit,
        "threads": threads,
        "vocabulary": parts.context.vocabulary.state(),
        "live": parts.context.live.state(),
        "registry": parts.registry.state(),
        "tables": {kind.label: table.state() for kind, table in parts.tables.items()},
        "settings": settings_state(parts.engines),
        "engines": {kind.label: engine.state() for kind, engine in parts.engines.items()},
        "swept": vacuum.state(),
    }


def outline_of(state: State) -> Outline:
    """What a broker of this state needs."""
    space, window, limit = state["space"], state["window"], state["max_matches_per_hour"]
    return Outline(
        Space(space["bounds"].tolist(), space["metric"], space["max_distance"]),
        None if window is None else Window(**window),
        Analyzer(**state["analyzer"]),
        None if limit == -1.0 else limit,
        state["threads"],
    )


def load_state(state: State, parts: Parts, vacuum: Vacuum) -> None:
    """Let the parts of a new broker become what a checked state says; engines that it lacks are filed again."""
    parts.context.vocabulary.load(state["vocabulary"])
    parts.context.live.load(state["live"])
    parts.registry.load(state["registry"])
    for kind, table in parts.tables.items():
        table.load(state["tables"][kind.label])
        engine = parts.engines[kind]
        if kind.label in state["engines"]:
            engine.load(state["engines"][kind.label])
            continue
        engine.insert(table.used_slots)
        if engine.keeps_results and len(parts.context.live.table):
            engine.fill(table.used_slots)
    vacuum.load(state["swept"])
