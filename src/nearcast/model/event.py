"""One line of a log becomes one event: `Publish`, `UpdateMessage`, `Retract`, `Subscribe`, `Unsubscribe` or `Move`.

The `ts` of the last four only says where among the messages they belong; it does not move the clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nearcast.errors import InvalidInput
from nearcast.model.checks import identity, is_a, number
from nearcast.model.geojson import RegionValue, as_region
from nearcast.model.instant import TimeValue, optional_instant
from nearcast.model.message import Message
from nearcast.model.query import Subscription
from nearcast.model.region import Region


@dataclass(frozen=True, slots=True)
class Publish:
    """A message arrives; `ts` is the message's own."""

    message: Message
    ts: int | None = None

    def __post_init__(self) -> None:
        if not is_a(self.message, Message):
            raise InvalidInput("message", self.message, "must be a Message")
        if self.ts is not None:
            object.__setattr__(self, "ts", optional_instant("ts", self.ts))


@dataclass(frozen=True, slots=True)
class UpdateMessage:
    """A message takes the place of the live one with its id; `ts` is the message's own."""

    message: Message
    ts: int | None = None

    def __post_init__(self) -> None:
        if not is_a(self.message, Message):
            raise InvalidInput("message", self.message, "must be a Message")
        if self.ts is not None:
            object.__setattr__(self, "ts", optional_instant("ts", self.ts))


@dataclass(frozen=True, slots=True)
class Retract:
    """The live message `id` is withdrawn."""

    id: str | int
    ts: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", identity("id", self.id))
        if self.ts is not None:
            object.__setattr__(self, "ts", optional_instant("ts", self.ts))


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A subscription is registered."""

    subscription: Subscription
    ts: int | None = None

    def __post_init__(self) -> None:
        if not is_a(self.subscription, Subscription):
            raise InvalidInput("subscription", self.subscription, "must be a Subscription")
        if self.ts is not None:
            object.__setattr__(self, "ts", optional_instant("ts", self.ts))


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """The subscription `id` ends."""

    id: str | int
    ts: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", identity("id", self.id))
        if self.ts is not None:
            object.__setattr__(self, "ts", optional_instant("ts", self.ts))


@dataclass(frozen=True, slots=True)
class Move:
    """The subscription `id` goes to another place: `lon` and `lat`, or for `Within` a `region`."""

    id: str | int
    lon: float | None = None
    lat: float | None = None
    region: Region | None = None
    ts: int | None = None

    if TYPE_CHECKING:  # what may be given is more than what is kept

        def __init__(
            self,
            id: str | int,
            lon: float | None = None,
            lat: float | None = None,
            region: RegionValue | None = None,
            ts: TimeValue | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", identity("id", self.id))
        if self.region is not None:
            object.__setattr__(self, "region", as_region(self.region))
            for name in ("lon", "lat"):
                if getattr(self, name) is not None:
                    raise InvalidInput(name, getattr(self, name), "must be left out when a region is given")
        else:
            for name in ("lon", "lat"):
                if getattr(self, name) is None:
                    raise InvalidInput(name, None, "is required when there is no region")
                object.__setattr__(self, name, number(name, getattr(self, name)))
        if self.ts is not None:
            object.__setattr__(self, "ts", optional_instant("ts", self.ts))


Event = Publish | UpdateMessage | Retract | Subscribe | Unsubscribe | Move
