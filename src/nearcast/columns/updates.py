"""Updates as columns: iterate them, count them, slice them, or take them as an Arrow table or a data frame."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.columns.arena import Floats, Ints, Longs
from nearcast.columns.ids import IdColumn
from nearcast.columns.shown import html_table, text_table, to_pandas, to_polars
from nearcast.model.update import Reject, Update

if TYPE_CHECKING:
    from nearcast.columns.shown import PandasFrame, PolarsFrame

_STRING = pa.string()
_PLUS, _MINUS = np.frombuffer(b"+-", dtype=np.uint8)
_SHOWN = 10  # rows that a printed one shows


class Origin(NamedTuple):
    """Where updates come from, one row an update."""

    events: Longs  # int64[n]: the row of the batch
    sequences: Longs  # int64[n]: of the message


_NO_LONGS: Longs = np.zeros(0, dtype=np.int64)
_NOWHERE = Origin(_NO_LONGS, _NO_LONGS)


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


class UpdateColumns(NamedTuple):
    """Updates as plain memory, of which Arrow or objects are made when somebody asks."""

    subscriptions: IdColumn
    messages: IdColumn
    signs: Ints
    scores: Floats  # NaN: none
    ts: Longs

    def to_arrow(self) -> pa.Table:
        subscriptions, messages = self.subscriptions.to_arrow(), self.messages.to_arrow()
        columns = [subscriptions, messages, _signs(self.signs), _scores(self.scores), pa.array(self.ts)]
        return pa.Table.from_arrays(columns, schema=_schema(subscriptions.type, messages.type))

    def to_rows(self) -> Iterator[Update]:
        signs: list[Any] = ["+" if sign > 0 else "-" for sign in self.signs.tolist()]
        scores = [None if score != score else score for score in self.scores.tolist()]
        ids = self.subscriptions.to_list(), self.messages.to_list()
        return (Update(*row) for row in zip(*ids, signs, scores, self.ts.tolist(), strict=True))


class Updates:
    """What changed, in order; which rows of the batch were refused, which were late, with the reason; and who ended.

    A sequence of `Update`: ``updates[0]``, ``updates[-5:]``, ``len(updates)``. A slice holds updates alone.

    Attributes
    ----------
    rejects, late
        Rows of the batch that were refused, and messages that came late: `Reject` objects.
    ended
        Ids of the subscriptions that expired in this call.

    Examples
    --------
    >>> updates = Updates.none([Reject(0, "lat", "lat must be within [-90, 90] under haversine, got 95.0")])
    >>> len(updates), updates.rejects[0].field
    (0, 'lat')
    """

    def __init__(
        self,
        told: pa.Table | UpdateColumns,
        rejects: Sequence[Reject] = (),
        late: Sequence[Reject] = (),
        ended: Sequence[str | int] = (),
        origin: Origin = _NOWHERE,
    ) -> None:
        self._told = told
        self._origin = origin
        self.rejects = list(rejects)
        self.late = list(late)
        self.ended = list(ended)

    @classmethod
    def none(
        cls,
        rejects: Sequence[Reject] = (),
        subscription_ids: pa.DataType = _STRING,
        message_ids: pa.DataType = _STRING,
    ) -> Updates:
        """No change at all, of ids of these types."""
        return cls(_nothing(subscription_ids, message_ids), rejects)

    @property
    def _table(self) -> pa.Table:
        if isinstance(self._told, UpdateColumns):
            self._told = self._told.to_arrow()
        return self._told

    @classmethod
    def concat(cls, parts: Sequence[Updates], rejects: Sequence[Reject] = (), late: Sequence[Reject] = ()) -> Updates:
        """All updates one after another, with the rejects and the late rows given."""
        ended = [id for part in parts for id in part.ended]
        said = [part for part in parts if len(part)] or list(parts[-1:])
        if not said:
            return cls(_nothing(_STRING, _STRING), rejects, late)
        if len(said) == 1:
            return cls(said[0]._told, rejects, late, ended, said[0]._origin)
        origin = Origin(*(np.concatenate(column) for column in zip(*(part._origin for part in said), strict=True)))
        return cls(pa.concat_tables([part._table for part in said]), rejects, late, ended, origin)

    @classmethod
    def in_turn(cls, parts: Sequence[tuple[int, Updates]]) -> Updates:
        """What the parts of one batch gave, each with the number of its first row: rows are numbered through."""
        if len(parts) == 1 and not parts[0][0]:
            return parts[0][1]
        shifted = [part._shifted(first) for first, part in parts]
        rejects, late = ([row for part in shifted for row in rows(part)] for rows in (_rejects, _late))
        return cls.concat(shifted, rejects, late)

    def _shifted(self, first: int) -> Updates:
        rejects, late = (
            [Reject(reject.row + first, reject.field, reject.reason) for reject in rows]
            for rows in (self.rejects, self.late)
        )
        origin = self._origin._replace(events=self._origin.events + first)
        return Updates(self._told, rejects, late, self.ended, origin)

    @property
    def event(self) -> Longs:
        """Of each update, the row of the batch that caused it; 0 where only one thing was given."""
        return self._origin.events

    @property
    def sequence(self) -> Longs:
        """Of each update, the sequence of its message: its arrival number."""
        return self._origin.sequences

    def __len__(self) -> int:
        return self._told.signs.size if isinstance(self._told, UpdateColumns) else int(self._told.num_rows)

    def __iter__(self) -> Iterator[Update]:
        if isinstance(self._told, UpdateColumns):
            return self._told.to_rows()
        columns = (self._table.column(name).to_pylist() for name in ("subscription", "message", "sign", "score", "ts"))
        return (Update(*row) for row in zip(*columns, strict=True))

    @overload
    def __getitem__(self, at: int) -> Update: ...

    @overload
    def __getitem__(self, at: slice) -> Updates: ...

    def __getitem__(self, at: int | slice) -> Update | Updates:
        """One update, or a slice of them as `Updates`."""
        if isinstance(at, slice):
            chosen = range(len(self))[at]
            origin = Origin(*(column[at] for column in self._origin))
            if chosen.step == 1:
                return Updates(self._table.slice(chosen.start, len(chosen)), origin=origin)
            return Updates(self._table.take(pa.array(chosen, pa.int64())), origin=origin)
        row = range(len(self))[index(at)]
        return Update(*(column[row].as_py() for column in self._table.columns))

    def __repr__(self) -> str:
        """Counts, and the first rows."""
        lines = [f"<Updates: {self._counts()}>"]
        if len(self):
            lines.append(text_table(self._table, _SHOWN))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        return html_table(self._table, _SHOWN, f"Updates: {self._counts()}")

    def _counts(self) -> str:
        n_plus = pc.sum(pc.equal(self._table.column("sign"), "+")).as_py() or 0
        signs = f" ({n_plus} +, {len(self) - n_plus} -)" if len(self) else ""
        counts = [f"{len(self)} updates{signs}", f"{len(self.rejects)} rejects"]
        counts += [f"{len(self.late)} late"] * bool(self.late) + [f"{len(self.ended)} ended"] * bool(self.ended)
        return ", ".join(counts)

    def to_arrow(self) -> pa.Table:
        """The columns `subscription, message, sign, score, ts`."""
        return self._table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The same for all that read Arrow streams: ``polars.DataFrame(updates)``, DuckDB."""
        return self._table.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> PandasFrame:
        """The same columns as a frame of pandas, which must be installed."""
        return to_pandas(self._table)

    def to_polars(self) -> PolarsFrame:
        """The same columns as a frame of polars, which must be installed."""
        return to_polars(self._table)


def _rejects(updates: Updates) -> list[Reject]:
    return updates.rejects


def _late(updates: Updates) -> list[Reject]:
    return updates.late
