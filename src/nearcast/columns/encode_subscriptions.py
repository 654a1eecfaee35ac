"""Stored subscriptions become the columns that `decode_subscriptions` reads: the same questions, written again.

Tables keep the words and clauses of a query, not the text that it was given as. So an expression comes back in its
normal form (``a b NOT c OR d``), and a list of words as text, unless one of them would be cut or changed there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.columns.arena import Array, Floats, Longs, State, starts_of
from nearcast.columns.arrow_checks import SIDES, WORDS
from nearcast.columns.regions import BOX, CIRCLE
from nearcast.columns.subscription_tables import where_column
from nearcast.columns.times import FOREVER
from nearcast.model.expression import MAX_WORDS
from nearcast.model.kinds import Kind
from nearcast.model.query import MATCHES, MEASURES
from nearcast.model.words import PLAIN, RESERVED, word_of_key, words_of
from nearcast.text.strings import strings_to_arrow

_NOT, _SPACE = pa.scalar("NOT", pa.large_string()), pa.scalar(" ", pa.large_string())
_FLOATS = ("lon", "lat", *SIDES, "delta", "tau", "alpha", "decay")
_STRINGS = ("region", "measure", "match", "where")
_COLUMNS = (
    "lon",
    "lat",
    *SIDES,
    "region",
    "delta",
    "tau",
    "measure",
    "alpha",
    "decay",
    "k",
    "match",
    "backfill",
    "expires",
    "where",
)


class Keywords(NamedTuple):
    """The words of subscriptions as texts, and as lists where a text would not say the same."""

    texts: pa.Array  # string, null where there is a list
    lists: pa.Array  # list<string>, null where there is a text
    is_expression: Array  # bool[n]: a text with alternatives or NOT, which no list can say

    def take(self, rows: Longs) -> Keywords:
        """Only these, in this order."""
        at = pa.array(rows)
        return Keywords(self.texts.take(at), self.lists.take(at), self.is_expression[rows])


def columns_of(kind: Kind, copied: State) -> dict[str, pa.Array]:
    """All columns but id, kind and keywords; `copied` is what the table's `copy` gave."""
    rows = copied["rows"]
    n = rows.size
    columns: dict[str, pa.Array] = {
        "backfill": pa.array(rows["since"] == 0),
        "expires": pa.array(rows["expires"], mask=rows["expires"] == FOREVER),
        "where": where_column(copied["where"]).cast(pa.string()),
    }
    if kind == Kind.WITHIN:
        boxed = rows["region_kind"] == BOX
        for side, field in zip(SIDES, ("x0", "y0", "x1", "y1"), strict=True):
            columns[side] = pa.array(rows[field], mask=~boxed)
        columns["region"] = pa.array(_regions(copied), pa.string())
    else:
        columns |= {"lon": pa.array(rows["x"]), "lat": pa.array(rows["y"])}
    if kind == Kind.SIMILAR:
        columns |= {"delta": pa.array(copied["scales"]["delta"]), "tau": pa.array(copied["scales"]["tau"])}
        columns["measure"] = pa.array(MEASURES).take(pa.array(rows["mode"]))
    elif kind == Kind.TOPK:
        columns |= {"alpha": pa.array(copied["scales"]["alpha"]), "k": pa.array(rows["k"].astype(np.int64))}
        half_lives = copied["half_lives"]
        columns["decay"] = pa.array(half_lives / 1000.0, mask=half_lives == 0)
    elif kind == Kind.NEAREST:
        columns |= {"match": pa.array(MATCHES).take(pa.array(rows["mode"])), "k": pa.array(rows["k"].astype(np.int64))}
    for name in _COLUMNS:
        if name not in columns:
            is_float, is_string = name in _FLOATS, name in _STRINGS
            columns[name] = pa.nulls(n, pa.float64() if is_float else pa.string() if is_string else pa.int64())
    return {name: columns[name] for name in _COLUMNS}


def _regions(copied: State) -> list[str | None]:
    """Circles and polygons as texts of GeoJSON, with every digit; None for boxes."""
    rows, points, rings = copied["rows"], copied["points"], copied["rings"]
    ends = np.cumsum(rows["n_rings"].astype(np.int64))
    regions: list[str | None] = [None] * rows.size
    for row in np.flatnonzero(rows["region_kind"] != BOX).tolist():
        starts = rings[ends[row] - rows["n_rings"][row] : ends[row]].tolist()
        if rows["region_kind"][row] == CIRCLE:
            centre, (radius, _) = points[starts[0] : starts[0] + 2].tolist()
            regions[row] = json.dumps({"type": "Circle", "coordinates": centre, "radius": radius})
        else:
            polygons: list[list[Any]] = [[]]
            for lo, hi in pairwise(starts):
                if lo == hi:  # an empty ring stands between the polygons of a union
                    polygons.append([])
                else:
                    polygons[-1].append(_closed(points, lo, hi))
            union = len(polygons) > 1
            kind, own = ("MultiPolygon", polygons) if union else ("Polygon", polygons[0])
            regions[row] = json.dumps({"type": kind, "coordinates": own})
    return regions


def _closed(points: Floats, lo: int, hi: int) -> list[Any]:
    ring = points[lo:hi].tolist()
    return [*ring, ring[0]]


def keywords_of(kind: Kind, copied: State) -> Keywords:
    """The words of subscriptions, written as one would ask for them."""
    words, is_pattern = _words_of_keys(strings_to_arrow(copied["words"], copied["starts"]).cast(pa.large_string()))
    if kind == Kind.WITHIN:
        lengths = copied["lengths"].reshape(-1, 2)
        wanted = np.repeat(np.tile([True, False], len(lengths)), lengths.reshape(-1))
        per_clause = lengths.sum(axis=1)
        first_clause = starts_of(copied["clauses"])
        n_words = np.diff(starts_of(per_clause)[first_clause])
        n_unwanted = np.diff(starts_of(lengths[:, 1])[first_clause])
        n_patterns = np.diff(starts_of(is_pattern)[starts_of(n_words)])
        is_expression = (copied["clauses"] > 1) | (n_unwanted > 0) | (n_patterns > 0)
        signed = pc.if_else(pa.array(wanted), words, pc.binary_join_element_wise(_NOT, words, _SPACE))
        texts = _joined(_joined(signed, per_clause, " "), copied["clauses"], " OR ")
    else:
        counts = copied.get("counts")
        n_words = copied["rows"]["n_terms"].astype(np.int64)
        if counts is not None:
            ends = starts_of(n_words)
            words = words.take(pa.array(np.repeat(np.arange(len(words)), counts)))
            n_words = np.diff(starts_of(counts)[ends])
        is_expression = np.zeros(n_words.size, dtype=bool)
        texts = _joined(words, n_words, " ")
    listed = ~is_expression & (_any_odd(words, n_words) | (n_words > MAX_WORDS))
    lists = pa.ListArray.from_arrays(pa.array(starts_of(n_words), pa.int32()), words.cast(pa.string()))
    none = pa.scalar(None)
    return Keywords(
        pc.if_else(pa.array(listed), none.cast(pa.string()), texts.cast(pa.string())),
        pc.if_else(pa.array(listed), lists, none.cast(WORDS)),
        is_expression,
    )


def _words_of_keys(keys: pa.Array) -> tuple[pa.Array, Array]:
    """The words of clauses that are filed under keys, and which of them are phrases or prefixes."""
    odd = pc.match_substring_regex(keys, f"^[{PLAIN}-{RESERVED}]").to_numpy(zero_copy_only=False)
    is_pattern = np.zeros(len(keys), dtype=np.int64)
    if not odd.any():
        return keys, is_pattern
    found = keys.filter(pa.array(odd)).to_pylist()
    is_pattern[odd] = [key[0] != PLAIN for key in found]
    words = pa.array([word_of_key(key) for key in found], pa.large_string())
    return pc.replace_with_mask(keys, pa.array(odd), words), is_pattern


def _joined(strings: pa.Array, lengths: Array, separator: str) -> pa.Array:
    """Runs of strings of these lengths, each as one."""
    lists = pa.LargeListArray.from_arrays(pa.array(starts_of(lengths), pa.int64()), strings)
    return pc.binary_join(lists, pa.scalar(separator, pa.large_string()))


def _any_odd(words: pa.Array, n_words: Longs) -> Array:
    """Which rows have a word that a text would not give back, since it would be cut or folded."""
    unsure = np.flatnonzero(~pc.match_substring_regex(words, "^[0-9a-z]+$").to_numpy(zero_copy_only=False))
    odd = np.zeros(len(words) + 1, dtype=np.int64)
    if unsure.size:
        found = pc.dictionary_encode(words.take(pa.array(unsure)))
        is_odd = np.array([words_of(word) != [word] for word in found.dictionary.to_pylist()])
        odd[1:][unsure] = is_odd[found.indices.to_numpy()]
    ends = np.cumsum(odd)[starts_of(n_words)]
    return np.diff(ends) > 0


def keyword_column(parts: Sequence[Keywords]) -> pa.ChunkedArray:
    """One column of all: texts; lists if some must be lists and all can; else a union of both."""
    if not any(part.lists.null_count < len(part.lists) for part in parts):
        return pa.chunked_array([part.texts for part in parts], pa.string())
    if not any(part.is_expression.any() for part in parts):
        return pa.chunked_array([_as_lists(part) for part in parts], WORDS)
    chunks = [_as_union(part) for part in parts]
    return pa.chunked_array(chunks, chunks[0].type)


def _as_lists(part: Keywords) -> pa.Array:
    return pc.coalesce(part.lists, pc.split_pattern(part.texts, " "))


def _as_union(part: Keywords) -> pa.Array:
    listed = part.lists.is_valid().to_numpy(zero_copy_only=False)
    offsets = np.where(listed, np.cumsum(listed), np.cumsum(~listed)) - 1
    children = [part.texts.drop_null(), part.lists.drop_null()]
    kinds, at = pa.array(listed.astype(np.int8)), pa.array(offsets.astype(np.int32))
    return pa.UnionArray.from_dense(kinds, at, children, ["text", "list"])
