"""Updates as columns: iterate them, count them, or take them as an Arrow table."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from nearcast.columns.arena import Floats, Ints, Longs
from nearcast.model.update import Reject, Update

_STRING = pa.string()
_PLUS, _MINUS = np.frombuffer(b"+-", dtype=np.uint8)


@functools.cache
def _schema(subscription_ids: pa.DataType, message_ids: pa.DataType) -> pa.Schema:
    ids = [("subscription", subscription_ids), ("message", message_ids)]
    return pa.schema([*ids, ("sign", pa.string()), ("score", pa.float64()), ("ts", pa.int64())])


@functools.cache
def _nothing(subscription_ids: pa.DataType, message_ids: pa.DataType) -> pa.Table:
    return _schema(subscription_ids, message_ids).empty_table()


def _signs(signs: Ints) -> pa.Array:
    """Strings of one byte each, written as Arrow holds them."""
    letters = np.where(signs > 0, _PLUS, _MINUS)
    return pa.StringArray.from_buffers(
        signs.size, pa.py_buffer(np.arange(signs.size + 1, dtype=np.int32)), pa.py_buffer(letters)
    )


def _scores(scores: Floats) -> pa.Array:
    missing = np.isnan(scores)
    return pa.nulls(scores.size, pa.float64()) if missing.all() else pa.array(scores, mask=missing)


class Updates:
    """What changed, in order, and which rows of the batch were refused; and which were late, with the reason.

    Examples
    --------
    >>> updates = Updates.none([Reject(0, "lat", "lat must be within [-90, 90] under haversine, got 95.0")])
    >>> len(updates), updates.rejects[0].field
    (0, 'lat')
    """

    def __init__(self, table: pa.Table, rejects: Sequence[Reject] = (), late: Sequence[Reject] = ()) -> None:
        self._table = table
        self.rejects = list(rejects)
        self.late = list(late)

    @classmethod
    def none(
        cls,
        rejects: Sequence[Reject] = (),
        subscription_ids: pa.DataType = _STRING,
        message_ids: pa.DataType = _STRING,
    ) -> Updates:
        """No change at all, of ids of these types."""
        return cls(_nothing(subscription_ids, message_ids), rejects)

    @classmethod
    def of(
        cls,
        subscriptions: pa.Array,
        messages: pa.Array,
        signs: Ints,
        scores: Floats,
        ts: Longs,
        rejects: Sequence[Reject] = (),
    ) -> Updates:
        """Updates from their columns; a score that is NaN is null."""
        columns = [subscriptions, messages, _signs(signs), _scores(scores), pa.array(ts, type=pa.int64())]
        return cls(pa.Table.from_arrays(columns, schema=_schema(subscriptions.type, messages.type)), rejects)

    @classmethod
    def concat(cls, parts: Sequence[Updates], rejects: Sequence[Reject] = (), late: Sequence[Reject] = ()) -> Updates:
        """All updates one after another, with the rejects and the late rows given."""
        said = [part._table for part in parts if len(part)] or [part._table for part in parts[-1:]]
        if not said:
            return cls(_nothing(_STRING, _STRING), rejects, late)
        return cls(said[0] if len(said) == 1 else pa.concat_tables(said), rejects, late)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[Update]:
        columns = (self._table.column(name).to_pylist() for name in ("subscription", "message", "sign", "score", "ts"))
        return (Update(*row) for row in zip(*columns, strict=True))

    def __repr__(self) -> str:
        return f"<Updates: {len(self)} updates, {len(self.rejects)} rejects>"

    def to_arrow(self) -> pa.Table:
        """The columns `subscription, message, sign, score, ts`."""
        return self._table
