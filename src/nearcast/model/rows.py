"""Many rows as callers give them: iterables of what each row may be, or anything that hands out an Arrow stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nearcast.model.event import Move
from nearcast.model.frames import ArrowStream
from nearcast.model.instant import TimeValue
from nearcast.model.message import Message
from nearcast.model.query import Query, Subscription

Json = Mapping[str, Any]
Named = tuple[str | int, Query] | tuple[str | int, Query, TimeValue | None]

MessageRows = Iterable[Message | Json] | ArrowStream
SubscriptionRows = Iterable[Subscription | Named | Json] | ArrowStream
MoveRows = Iterable[Move | Json] | ArrowStream
IdRows = Iterable[str | int | Json] | ArrowStream
