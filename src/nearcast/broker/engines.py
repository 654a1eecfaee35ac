"""Which engine answers for which kind of query, and with which settings: chosen when a broker is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any, NamedTuple, cast

from nearcast.broker.in_turn import in_pieces
from nearcast.columns.arena import State
from nearcast.columns.subscription_tables import PointTable, WithinTable
from nearcast.engines.contract import Engine, EngineContext, KeepsResults
from nearcast.engines.nearest.engine import NearestEngine
from nearcast.engines.nearest.settings import NearestSettings
from nearcast.engines.parted import PartedEngine, Workers
from nearcast.engines.similar import SimilarStamp, StampSettings
from nearcast.engines.topk import SkypeSettings, TopKSkype
from nearcast.engines.within import ApTreeSettings, WithinApTree
from nearcast.errors import InvalidInput
from nearcast.model.kinds import LABELS, Kind
from nearcast.window.window import Window
from nearcast.work_progress import UNWATCHED

Table = WithinTable | PointTable
EngineSettings = ApTreeSettings | StampSettings | SkypeSettings | NearestSettings
EngineMaker = Callable[[Any, EngineContext], Engine]  # from the table of its subscriptions, and what engines share
EngineChoice = Mapping[str, EngineSettings | EngineMaker]


class Standard(NamedTuple):
    """The engine that answers for a kind unless another is given, and the class of its settings."""

    engine: Callable[..., Engine]
    settings: type[Any]


STANDARD = {
    Kind.WITHIN: Standard(WithinApTree, ApTreeSettings),
    Kind.SIMILAR: Standard(SimilarStamp, StampSettings),
    Kind.TOPK: Standard(TopKSkype, SkypeSettings),
    Kind.NEAREST: Standard(NearestEngine, NearestSettings),
}


def asked_fields(window: Window | None, tables: Mapping[Kind, Table]) -> frozenset[str] | None:
    """The names of fields that subscriptions ask for; None where messages are kept, and with them all of theirs."""
    if window is not None or len(tables[Kind.NEAREST]):
        return None
    return frozenset().union(*(table.conditions.names for table in tables.values()))


def check_choice(choice: EngineChoice | None) -> dict[Kind, Any]:
    """The settings or the maker of each kind that something was chosen for."""
    if choice is None:
        return {}
    if not isinstance(choice, Mapping):
        raise InvalidInput("engines", choice, "must map kinds of queries to settings, or to makers of engines")
    chosen = {}
    for label, value in choice.items():
        if label not in LABELS:
            raise InvalidInput("engines", label, f"must be one of {', '.join(LABELS)}")
        kind = Kind.of(label)
        wanted = STANDARD[kind].settings
        if not isinstance(value, wanted) and (isinstance(value, EngineSettings) or not callable(value)):
            raise InvalidInput(f"engines[{label!r}]", value, f"must be {wanted.__name__}, or make an engine")
        chosen[kind] = value
    return chosen


def make_engines(
    chosen: Mapping[Kind, Any], tables: Mapping[Kind, Table], context: EngineContext, workers: Workers
) -> dict[Kind, Engine]:
    """An engine for every kind: the standard one, with the settings that were chosen, or the one chosen instead.

    Standard ones have as many parts as there are workers.
    """
    engines: dict[Kind, Engine] = {}
    for kind, standard in STANDARD.items():
        value = chosen.get(kind, standard.settings())
        own = isinstance(value, standard.settings)
        make = partial(standard.engine, settings=value) if own else value
        if own and workers.n > 1:
            engines[kind] = PartedEngine(make, tables[kind], context, workers)
        else:
            engines[kind] = make(tables[kind], context)
    return engines


def file_again(engines: dict[Kind, Engine], others: Mapping[Kind, Engine]) -> None:
    """Let other engines, in which nothing is filed, stand in for standard ones: with the same results."""
    for kind, engine in others.items():
        if settings_of(kind, engine) is None:
            continue
        slots, live = engine.table.used_slots, engine.context.live
        engine.insert(slots)
        if engine.keeps_results and live.window is None:
            before, after = (cast(KeepsResults, one) for one in (engines[kind], engine))
            after.resume(slots, *before.kept(slots))
        elif engine.keeps_results and len(live.table):
            for some in in_pieces(slots, UNWATCHED):
                engine.fill(some)
        engines[kind] = engine


def settings_state(engines: Mapping[Kind, Engine]) -> State:
    """The settings of all engines, for a snapshot; None for an engine that is not the standard one."""
    found = {kind: settings_of(kind, engine) for kind, engine in engines.items()}
    return {kind.label: None if settings is None else _plain(settings) for kind, settings in found.items()}


def settings_of(kind: Kind, engine: Engine) -> Any:
    """The settings of a standard engine; None of another."""
    settings = getattr(engine, "settings", None)
    return settings if isinstance(settings, STANDARD[kind].settings) else None


def _plain(settings: Any) -> State:
    """Settings without a sample: the engine has learned from it."""
    values = asdict(replace(settings, sample=()) if hasattr(settings, "sample") else settings)
    values.pop("sample", None)
    return values


def check_replacements(engines: EngineChoice | None) -> dict[str, Any]:
    """Engines for a broker that is restored: makers only, since a snapshot has the settings of the standard ones."""
    for kind, value in check_choice(engines).items():
        if isinstance(value, STANDARD[kind].settings):
            raise InvalidInput(f"engines[{kind.label!r}]", value, "must be left out: a snapshot has its settings")
    return dict(engines or {})


def choice_of(state: State, replacements: EngineChoice) -> dict[str, Any]:
    """The choice that a snapshot was made with; engines other than the standard ones must be given once more."""
    choice = dict(replacements)
    for kind, standard in STANDARD.items():
        if kind.label not in choice:
            if state[kind.label] is None:
                raise ValueError(f"its {kind.label} engine was not the standard one; name its maker in `engines`")
            choice[kind.label] = standard.settings(**state[kind.label])
    return choice
