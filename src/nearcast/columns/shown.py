"""Tables as people look at them: a few lines of text, HTML for notebooks, a frame of polars."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from nearcast.errors import SetupError

if TYPE_CHECKING:
    import pandas
    import polars

    PandasFrame: TypeAlias = pandas.DataFrame
    PolarsFrame: TypeAlias = polars.DataFrame

_WIDTH = 32  # characters of a value that are shown


def text_table(table: pa.Table, n_rows: int) -> str:
    """The first rows in columns, and how many follow."""
    cells = _cells(table, n_rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([*lines, *_more(table, n_rows)])


def html_table(table: pa.Table, n_rows: int, caption: str) -> str:
    """The first rows as an HTML table."""
    head, *rows = _cells(table, n_rows)
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    more = "".join(f"<p>{line}</p>" for line in _more(table, n_rows))
    title = f"<caption>{escape(caption)}</caption>"
    return f"<table>{title}<thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>{more}"


def to_pandas(table: pa.Table) -> PandasFrame:
    """A frame of pandas with these columns."""
    frame: PandasFrame = table.to_pandas()
    return frame


def to_polars(table: pa.Table) -> PolarsFrame:
    """A frame of polars with these columns."""
    try:
        import polars
    except ImportError as error:
        raise SetupError("to_polars needs polars: pip install polars") from error
    return polars.DataFrame(table)


def _cells(table: pa.Table, n_rows: int) -> list[list[str]]:
    columns = [column.to_pylist() for column in table.slice(0, n_rows).columns]
    return [list(table.column_names), *([_shown(value) for value in row] for row in zip(*columns, strict=True))]


def _more(table: pa.Table, n_rows: int) -> list[str]:
    return [f"... {table.num_rows - n_rows} more"] if table.num_rows > n_rows else []


def _shown(value: Any) -> str:
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    text = "".join(character if character.isprintable() else " " for character in text)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
