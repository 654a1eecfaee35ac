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
        _check_type(self, "message", Message)
        _check_ts(self)


@dataclass(frozen=True, slots=True)
class UpdateMessage:
    """A message takes the place of the live one with its id; `ts` is the message's own."""

    message: Message
    ts: int | None = None

    def __post_init__(self) -> None:
        _check_type(self, "message", Message)
        _check_ts(self)


@dataclass(frozen=True, slots=True)
class Retract:
    """The live message `id` is withdrawn."""

    id: str | int
    ts: int | None = None

    def __post_init__(self) -> None:
        _check_id(self)
        _check_ts(self)


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A subscription is registered."""

    subscription: Subscription
    ts: int | None = None

    def __post_init__(self) -> None:
        _check_type(self, "subscription", Subscription)
        _check_ts(self)


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """The subscription `id` ends."""

    id: str | int
    ts: int | None = None

    def __post_init__(self) -> None:
        _check_id(self)
        _check_ts(self)


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
        _check_id(self)
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
        _check_ts(self)


def _check_type(event: Publish | UpdateMessage | Subscribe, name: str, type: type) -> None:
    if not is_a(getattr(event, name), type):
        raise InvalidInput(name, getattr(event, name), f"must be a {type.__name__}")


def _check_id(event: Retract | Unsubscribe | Move) -> None:
    object.__setattr__(event, "id", identity("id", event.id))


def _check_ts(event: Event) -> None:
    if event.ts is not None:
        object.__setattr__(event, "ts", optional_instant("ts", event.ts))


Event = Publish | UpdateMessage | Retract | Subscribe | Unsubscribe | Move
