"""What every task must know to do its part: the broker's settings, the number of shards, the store."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import ByteType, DataType, IntegerType, ShortType, StringType

import nearcast as nc
from nearcast.errors import InvalidInput
from nearcast.model.checks import is_a, whole
from nearcast.spark.shards.blocks import to_bytes

_MOST_SHARDS = 4096


@dataclass(frozen=True)
class Spec:
    """The settings of one pipeline, as they travel to executors."""

    space: nc.Space
    window: nc.Window | None
    weights: nc.Weights | None
    shards: int
    subscription_type: pa.DataType  # of ids, as answers have them
    message_type: pa.DataType
    store: str | None = None  # a URI
    placed: bool = False  # may control events assign subscriptions to shards?
    settings: str = ""  # what must not change while a checkpoint lasts
    snapshot_every: int = 10  # batches

    def broker(self) -> nc.Broker:
        """A broker without subscriptions and messages."""
        return nc.Broker(self.space, self.window, self.weights)


def spec_of(
    space: nc.Space,
    window: nc.Window | None,
    weights: nc.Weights | None,
    shards: int,
    store: str | None,
    subscription_ids: DataType,
    message_ids: DataType,
    *,
    placed: bool = False,
) -> Spec:
    """Settings as callers give them, checked."""
    if not is_a(space, nc.Space):
        raise InvalidInput("space", space, "must be a Space")
    if window is not None and not is_a(window, nc.Window):
        raise InvalidInput("window", window, "must be a Window or None")
    if weights is not None and not is_a(weights, nc.Weights):
        raise InvalidInput("weights", weights, "must be Weights or None")
    n_shards = whole("shards", shards, 1, _MOST_SHARDS)
    settings = _settings(space, window, weights) + (", with assigns" if placed else "")
    return Spec(
        space, window, weights, n_shards, _arrow(subscription_ids), _arrow(message_ids), store, placed, settings
    )


def _settings(space: nc.Space, window: nc.Window | None, weights: nc.Weights | None) -> str:
    """What decides answers, besides rows: a checkpoint is begun and resumed with the same."""
    if weights is None or not weights.n_texts:
        return f"{space}, {window}, no weights"
    words, counts = weights.counts()
    table = pa.table({"word": words, "n": counts}).sort_by("word")
    return f"{space}, {window}, weights {zlib.crc32(to_bytes(table)):08x} of {weights.n_texts} texts"


def _arrow(kind: DataType) -> Any:
    if isinstance(kind, StringType):
        return pa.string()
    for small, arrow in ((ByteType, pa.int8()), (ShortType, pa.int16()), (IntegerType, pa.int32())):
        if isinstance(kind, small):
            return arrow
    return pa.int64()
