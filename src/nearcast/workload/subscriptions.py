"""Questions of the four kinds, made from a table of messages the way the papers' experiments make them.

A subscription takes its place from a random message and 1 to 5 of that message's words: so do the experiments of
AP-Tree (5.1.1), STAMP (VI-A), Skype (7.1), CkQST (4.1) and DkM-SKS (5). The other parameters are theirs too:

| kind | set as in |
|---|---|
| within | AP-Tree: a rectangle around the place with 0.01 % to 1 % of the space's area, uniformly |
| similar | STAMP: delta from 0 to 1, tau from 0.5 to 1, uniformly; weights by idf |
| topk | Skype: k = 20, alpha from 0 to 1, uniformly |
| nearest, all words | CkQST: k = 20 |
| nearest, any word | DkM-SKS: k from 1 to 10, uniformly; and, if asked for, its `backfill=False` |
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.errors import InvalidInput
from nearcast.text.words import from_lists, tokenise
from nearcast.workload.schema import (
    BLOCK,
    BOX,
    SUBSCRIPTIONS,
    Bounds,
    Floats,
    Ints,
    blocks,
    generator,
    lists,
    starts,
    table,
)
from nearcast.workload.zipf import check_words

AREAS = (0.0001, 0.01)
TAUS = (0.5, 1.0)
KINDS = ("within", "similar", "topk", "nearest_all", "nearest_any")

_DRAWS = 4  # what a seed is used for; `zipf` and `s1m` have the others


@dataclass(frozen=True, slots=True)
class Source:
    """Places and distinct words of messages, ready to draw subscriptions from."""

    lon: Floats
    lat: Floats
    words: pa.Array  # string[n_words]: every word once
    row_start: Ints  # int64[n_rows + 1]: row i owns numbers row_start[i]:row_start[i + 1]
    numbers: Ints  # int64[]: places in `words`

    @classmethod
    def of(cls, messages: pa.Table, drop: Collection[str] = ()) -> Source:
        """Read a messages table; messages left without a word are not drawn from.

        Parameters
        ----------
        messages
            Columns ``lon, lat`` and ``text`` or ``keywords``.
        drop
            Words that no subscription shall ask for, such as stop words.
        """
        texts = "text" in messages.column_names
        found = tokenise(messages["text"]) if texts else from_lists(messages["keywords"])
        spelled = pa.LargeStringArray.from_buffers(
            found.word_start.size - 1, pa.py_buffer(found.word_start), pa.py_buffer(found.data)
        )
        coded = pc.dictionary_encode(spelled)
        words = coded.dictionary.cast(pa.string())
        numbers = coded.indices.to_numpy().astype(np.int64)
        rows = np.repeat(np.arange(found.row_start.size - 1), np.diff(found.row_start))
        if drop:
            kept = ~pc.is_in(words, pa.array(sorted(drop), pa.string())).to_numpy(zero_copy_only=False)
            rows, numbers = rows[kept[numbers]], numbers[kept[numbers]]
        if rows.size == 0:
            raise InvalidInput("messages", messages.num_rows, "must hold a message with words")
        # Sorted, because np.unique hashes first: 5 s instead of 0.2 s for 2.8 million words (NumPy 2.4, November 2026).
        pairs = np.sort(rows * len(words) + numbers, kind="stable")
        pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])]
        rows, numbers = pairs // len(words), pairs % len(words)
        counts = np.bincount(rows)
        used = np.flatnonzero(counts)
        lon, lat = messages["lon"].to_numpy(), messages["lat"].to_numpy()
        return cls(lon[used], lat[used], words, starts(counts[used]), numbers)

    @property
    def bounds(self) -> Bounds:
        """The box around all places."""
        return float(self.lon.min()), float(self.lat.min()), float(self.lon.max()), float(self.lat.max())

    def draw(self, rng: np.random.Generator, n: int, words: tuple[int, int]) -> tuple[Ints, pa.Array]:
        """`n` random rows, and for each a list of distinct words of that row (fewer where it has no more)."""
        rows = rng.integers(0, self.lon.size, n)
        available = self.row_start[rows + 1] - self.row_start[rows]
        wanted = np.minimum(rng.integers(words[0], words[1] + 1, n), available)
        offsets = starts(available)
        owner = np.repeat(np.arange(n), available)
        place = np.arange(offsets[-1]) - offsets[owner]
        order = np.lexsort((rng.random(owner.size), owner))
        chosen = order[place < wanted[owner]]
        numbers = self.numbers[self.row_start[rows[owner[chosen]]] + place[chosen]]
        return rows, lists(self.words, numbers, starts(wanted))


def within(
    source: Source,
    n: int,
    seed: int,
    *,
    bounds: Bounds | None = None,
    areas: tuple[float, float] = AREAS,
    words: tuple[int, int] = (1, 5),
    expressions: bool = False,
    **common: Any,
) -> Iterator[pa.Table]:
    """Boxes around messages that ask for all their words, or with `expressions` for a random AND / OR of them.

    Parameters
    ----------
    bounds
        The space whose area counts, and at whose border boxes end; the source's own bounds by default.
    areas
        Smallest and largest share of the space's area that a box covers.
    expressions
        The ``keywords`` column is then a string: the words are cut in two, each part joined by AND or by OR, and
        the two parts joined likewise (AP-Tree 5.1.1).
    """
    if not 0 < areas[0] <= areas[1] <= 1:
        raise InvalidInput("areas", areas, "must be (smallest, largest) with 0 < smallest <= largest <= 1")
    space = bounds or source.bounds

    def columns(rng: np.random.Generator, rows: Ints, keywords: pa.Array) -> dict[str, Any]:
        share = np.sqrt(rng.uniform(*areas, rows.size))
        box = _boxes(source.lon[rows], source.lat[rows], share, space)
        return {"kind": "within", "keywords": _expressions(rng, keywords) if expressions else keywords, **box}

    return _tables(source, n, (seed, _DRAWS, 1), words, columns, expressions=expressions, **common)


def similar(
    source: Source,
    n: int,
    seed: int,
    *,
    taus: tuple[float, float] = TAUS,
    measure: str = "weighted",
    words: tuple[int, int] = (1, 5),
    **common: Any,
) -> Iterator[pa.Table]:
    """Thresholds on text and place together: delta anywhere, tau from the given range."""

    def columns(rng: np.random.Generator, rows: Ints, keywords: pa.Array) -> dict[str, Any]:
        delta, tau = rng.random(rows.size), rng.uniform(*taus, rows.size)
        place = {"lon": source.lon[rows], "lat": source.lat[rows]}
        return {"kind": "similar", "keywords": keywords, "delta": delta, "tau": tau, "measure": measure, **place}

    return _tables(source, n, (seed, _DRAWS, 2), words, columns, **common)


def topk(
    source: Source, n: int, seed: int, *, k: int = 20, words: tuple[int, int] = (1, 5), **common: Any
) -> Iterator[pa.Table]:
    """The k best by text and place, each subscriber with a weight (alpha) of its own."""

    def columns(rng: np.random.Generator, rows: Ints, keywords: pa.Array) -> dict[str, Any]:
        place = {"lon": source.lon[rows], "lat": source.lat[rows]}
        return {"kind": "topk", "keywords": keywords, "k": k, "alpha": rng.random(rows.size), **place}

    return _tables(source, n, (seed, _DRAWS, 3), words, columns, **common)


def nearest(
    source: Source,
    n: int,
    seed: int,
    *,
    match: str = "all",
    k: tuple[int, int] | None = None,
    words: tuple[int, int] = (1, 5),
    **common: Any,
) -> Iterator[pa.Table]:
    """The k nearest that hold all or any of the words; k is 20 for all, 1 to 10 for any, unless a range is given."""
    if match not in ("all", "any"):
        raise InvalidInput("match", match, "must be 'all' or 'any'")
    fewest, most = k or ((20, 20) if match == "all" else (1, 10))

    def columns(rng: np.random.Generator, rows: Ints, keywords: pa.Array) -> dict[str, Any]:
        place = {"lon": source.lon[rows], "lat": source.lat[rows]}
        counts = rng.integers(fewest, most + 1, rows.size)
        return {"kind": "nearest", "keywords": keywords, "k": counts, "match": match, **place}

    return _tables(source, n, (seed, _DRAWS, 4 if match == "all" else 5), words, columns, **common)


def mixed(
    source: Source,
    n: int,
    seed: int,
    *,
    shares: Mapping[str, float] | None = None,
    bounds: Bounds | None = None,
    **common: Any,
) -> Iterator[pa.Table]:
    """All kinds, one after another, with ids 1 to n; `shares` weighs the kinds of `KINDS`, equal by default."""
    weights = dict.fromkeys(KINDS, 1.0) if shares is None else dict(shares)
    total = sum(weights.values())
    if not weights or not set(weights) <= set(KINDS) or min(weights.values()) < 0 or not total > 0:
        raise InvalidInput("shares", shares, f"must weigh some of {', '.join(KINDS)}")
    before, done = 0.0, 0
    for kind, weight in weights.items():
        before += weight
        upto = round(n * before / total)
        size, first_id, done = upto - done, done + 1, upto
        own = {**common, "first_id": first_id}
        if kind == "within":
            yield from within(source, size, seed, bounds=bounds, **own)
        elif kind == "similar":
            yield from similar(source, size, seed, **own)
        elif kind == "topk":
            yield from topk(source, size, seed, **own)
        else:
            yield from nearest(source, size, seed, match=kind.removeprefix("nearest_"), **own)


def _tables(
    source: Source,
    n: int,
    seed: tuple[int, ...],
    words: tuple[int, int],
    columns: Any,
    *,
    expressions: bool = False,
    first_id: int = 1,
    backfill: bool = True,
    expires: tuple[int, int] | None = None,
) -> Iterator[pa.Table]:
    """Tables of at most `BLOCK` rows; `columns(rng, rows, keywords)` gives what the kind adds.

    `expires` draws each subscription's own end uniformly from a range of epoch milliseconds.
    """
    check_words(words)
    schema = SUBSCRIPTIONS
    if expressions:
        schema = schema.set(schema.get_field_index("keywords"), pa.field("keywords", pa.string()))
    for number, first, size in blocks(n):
        rng = generator(*seed, number)
        rows, keywords = source.draw(rng, BLOCK, words)
        made = columns(rng, rows, keywords)
        made["id"] = np.arange(first_id + first, first_id + first + BLOCK)
        made["backfill"] = backfill
        if expires is not None:
            made["expires"] = rng.integers(expires[0], expires[1], BLOCK, endpoint=True)
        yield table(schema, BLOCK, made).slice(0, size)


def _boxes(x: Floats, y: Floats, share: Floats, bounds: Bounds) -> dict[str, Floats]:
    """Boxes centred at (x, y) with `share` of the space's sides, cut at its border but never past their centre."""
    half_x, half_y = share * (bounds[2] - bounds[0]) / 2, share * (bounds[3] - bounds[1]) / 2
    low_x, low_y = np.maximum(x - half_x, np.minimum(bounds[0], x)), np.maximum(y - half_y, np.minimum(bounds[1], y))
    top_x, top_y = np.minimum(x + half_x, np.maximum(bounds[2], x)), np.minimum(y + half_y, np.maximum(bounds[3], y))
    return dict(zip(BOX, (low_x, low_y, top_x, top_y), strict=True))


def _expressions(rng: np.random.Generator, keywords: pa.Array) -> pa.Array:
    """A random expression of each list: ``(a OR b) AND (c AND d)``; a single word stands alone."""
    n = len(keywords)
    counts = pc.list_value_length(keywords).to_numpy()
    cut = 1 + (rng.random(n) * np.maximum(counts - 1, 1)).astype(np.int64)
    offsets = keywords.offsets.to_numpy().astype(np.int64)
    middle = np.minimum(offsets[:-1] + cut, offsets[1:])
    both = pa.ListArray.from_arrays(
        pa.array(np.append(np.column_stack((offsets[:-1], middle)).ravel(), offsets[-1]), pa.int32()), keywords.values
    )
    joins = pa.array([" AND ", " OR "])
    parts = pc.binary_join(both, joins.take(pa.array(rng.integers(0, 2, 2 * n))))
    left, right = parts.take(pa.array(np.arange(0, 2 * n, 2))), parts.take(pa.array(np.arange(1, 2 * n, 2)))
    between = joins.take(pa.array(rng.integers(0, 2, n)))
    whole = pc.binary_join_element_wise("(", left, ")", between, "(", right, ")", "")
    return pc.if_else(pa.array(counts > 1), whole, left)
