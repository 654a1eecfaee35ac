"""The result of a subscription as a list of (message id, score), which is also an Arrow table or a data frame."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from nearcast.columns.shown import html_table, to_pandas, to_polars

if TYPE_CHECKING:
    from nearcast.columns.shown import PandasFrame, PolarsFrame

_SHOWN = 10  # rows that a notebook shows


class Results(list[tuple[str | int, float | None]]):
    """(message id, score) of every message in a result, best first; a copy, which later events do not change.

    Examples
    --------
    >>> results = Results([("m1", 0.83), ("m2", 0.5)])
    >>> results == [("m1", 0.83), ("m2", 0.5)], results.to_arrow().column_names
    (True, ['message', 'score'])
    """

    def __init__(self, pairs: Iterable[tuple[str | int, float | None]] = (), ids: pa.DataType | None = None) -> None:
        super().__init__(pairs)
        self._ids = ids

    def to_arrow(self) -> pa.Table:
        """The columns `message, score`; the score is null for `Within`."""
        ids = self._ids
        if ids is None:
            ids = pa.int64() if self and isinstance(self[0][0], int) else pa.string()
        columns = [pa.array([id for id, _ in self], ids), pa.array([score for _, score in self], pa.float64())]
        return pa.Table.from_arrays(columns, names=["message", "score"])

    def to_pandas(self) -> PandasFrame:
        """The same columns as a frame of pandas, which must be installed."""
        return to_pandas(self.to_arrow())

    def to_polars(self) -> PolarsFrame:
        """The same columns as a frame of polars, which must be installed."""
        return to_polars(self.to_arrow())

    def _repr_html_(self) -> str:
        return html_table(self.to_arrow(), _SHOWN, f"Results: {len(self)} messages")
