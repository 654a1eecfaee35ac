"""What a broker is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from nearcast.broker.engines import Table
from nearcast.broker.registry import Registry
from nearcast.engines.contract import Engine, EngineContext
from nearcast.model.kinds import Kind


class Parts(NamedTuple):
    """Who is subscribed, and by kind of query the rows and the engine; space, words and live messages are shared."""

    registry: Registry
    tables: Mapping[Kind, Table]
    engines: dict[Kind, Engine]  # one may be exchanged for another that holds the same subscriptions
    context: EngineContext
