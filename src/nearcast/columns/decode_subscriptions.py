"""Subscriptions, moves and ids as callers give them become checked rows: objects one by one, Arrow tables in bulk.

The row-wise door decides: it builds the model's own objects, which hold all rules. The bulk door only recognises rows
that are surely right, without touching Python objects; every other row goes through the row-wise door.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.columns.arena import Array, Floats, Ints, Longs, ranges
from nearcast.columns.arrow_checks import LARGEST, SIDES, WORDS, Columns, is_simple
from nearcast.columns.arrow_rows import as_table, is_sound, refuse_strangers, rows_of
from nearcast.columns.ids import bulk_id_type, id_type, same_type
from nearcast.columns.regions import box_rows, joined_regions, region_rows
from nearcast.columns.subscription_tables import PointRows, WithinRows
from nearcast.columns.times import FOREVER, rows_with_times, whole_times
from nearcast.errors import InvalidInput
from nearcast.model.analyzer import PLAIN_RULE, Analyzer
from nearcast.model.checks import is_a, plain_copy, refusal
from nearcast.model.codec import subscription_from_json
from nearcast.model.instant import milliseconds_in
from nearcast.model.kinds import Kind
from nearcast.model.message import Message
from nearcast.model.query import MATCHES, MEASURES, Nearest, Similar, Subscription, TopK, Within, clauses_by, words_by
from nearcast.model.update import Reject
from nearcast.model.words import term_key
from nearcast.space.space import Space


class Part(NamedTuple):
    """Accepted subscriptions of one kind."""

    kind: Kind
    ids: pa.Array
    given: PointRows | WithinRows
    words: pa.Array  # list<string>: keys of each row's words; for within two lists a clause, positive and negative
    n_clauses: Ints  # int32[n] for within: clauses of each row
    where: pa.Array | None  # string[n]: conditions, null where there is none; or nobody has one

    def filter(self, keep: Array) -> Part:
        """Only the rows whose flag is set."""
        return self.take(np.flatnonzero(keep))

    def take(self, rows: Longs) -> Part:
        """Only these rows, in this order."""
        columns = {name: values[rows] for name, values in self.given._asdict().items() if name != "regions"}
        words = rows
        if isinstance(self.given, WithinRows):
            columns["regions"] = self.given.regions.take(rows)
            first = 2 * (np.cumsum(self.n_clauses) - self.n_clauses)
            words = ranges(first[rows], 2 * self.n_clauses[rows])
        n_clauses = self.n_clauses[rows] if self.n_clauses.size else self.n_clauses
        where = None if self.where is None else self.where.take(rows)
        given = type(self.given)(**columns)
        return Part(self.kind, self.ids.take(rows), given, self.words.take(words), n_clauses, where)


def one_part(parts: Sequence[Part]) -> Part:
    """Two or more parts of one kind as a single one, in the order of rows: so are slots given out."""
    first = parts[0]
    names = [name for name in first.given._fields if name != "regions"]
    given: list[Any] = [part.given for part in parts]
    columns: dict[str, Any] = {name: np.concatenate([getattr(own, name) for own in given]) for name in names}
    if isinstance(first.given, WithinRows):
        columns["regions"] = joined_regions([own.regions for own in given])
    absent = [pa.nulls(len(part.ids), pa.string()) if part.where is None else part.where for part in parts]
    joined = Part(
        first.kind,
        pa.concat_arrays([part.ids for part in parts]),
        type(first.given)(**columns),
        pa.concat_arrays([part.words for part in parts]),
        np.concatenate([part.n_clauses for part in parts]),
        pa.concat_arrays(absent),
    )
    return joined.take(np.argsort(columns["rows"]))


class SubscriptionBatch(NamedTuple):
    """Subscriptions that passed all checks which need no broker."""

    parts: list[Part]  # one of each kind at most
    rejects: list[Reject]


class Rules(NamedTuple):
    """What a broker asks of subscriptions beyond their own rules."""

    space: Space
    has_window: bool
    id_type: str | None  # of the subscriptions before
    analyzer: Analyzer = PLAIN_RULE


def as_subscription(item: Any) -> Subscription:
    """A Subscription given as one, as (id, query[, expires]), or as its JSON form."""
    if type(item) is Subscription:
        return item
    try:
        return _read(item)
    except Exception as error:
        raise refusal("subscription", item, error, lambda: _read(item)) from error


def _read(item: Any) -> Subscription:
    if isinstance(item, Mapping):
        return subscription_from_json(dict(item))
    if isinstance(item, tuple) and 2 <= len(item) <= 3:
        return Subscription(*item)
    subscription: Subscription | None = plain_copy("subscription", item, (Subscription,))
    if subscription is None:
        raise InvalidInput("subscription", item, "must be a Subscription, (id, query[, expires]) or a mapping")
    return subscription


def check_subscription(subscription: Subscription, rules: Rules) -> None:
    """Refuse what only the broker's space, window and earlier ids can refuse."""
    try:
        _check(subscription, rules)
    except Exception as error:
        raise refusal("subscription", subscription, error, lambda: _check(subscription, rules)) from error


def _check(subscription: Subscription, rules: Rules) -> None:
    query = subscription.query
    if isinstance(query, Within):
        clauses_by(query, rules.analyzer)
        rules.space.check_region(query.region)
    else:
        words_by(query, rules.analyzer)
        rules.space.check_point(query.lon, query.lat)
        if isinstance(query, TopK) and not rules.has_window:
            raise InvalidInput("kind", "topk", "needs a broker with a window")
    same_type(subscription.id, rules.id_type)


def decode_one(subscription: Subscription, rules: Rules) -> Part:
    """A single subscription, which was checked."""
    return _part(Kind.of(subscription.query.kind), [(0, subscription)], rules)


def decode_subscriptions(source: Any, rules: Rules) -> SubscriptionBatch:
    """Check a batch of subscriptions row by row."""
    table = as_table("subscriptions", source)
    if table is None:
        return _from_objects(enumerate(rows_of("subscriptions", source)), rules)
    table = whole_times(table)
    if not is_simple(table) or not is_sound(table):
        return _from_objects(enumerate(rows_with_times("subscriptions", table)), rules)
    try:
        parts, left = _sure_rows(table, rules)
    except pa.ArrowException:  # more than fits into one array
        parts, left = [], np.arange(table.num_rows)
    if left.size == 0:
        return SubscriptionBatch(parts, [])
    known = id_type(parts[0].ids[0].as_py()) if parts else rules.id_type
    rest = table.take(left) if left.size < table.num_rows else table
    rows = rows_with_times("subscriptions", rest)
    slow = _from_objects(zip(left.tolist(), rows, strict=True), rules._replace(id_type=known))
    by_kind = [[part for part in parts + slow.parts if part.kind == kind] for kind in Kind]
    merged = [own[0] if len(own) == 1 else one_part(own) for own in by_kind if own]
    return SubscriptionBatch(merged, slow.rejects)


def _from_objects(rows: Iterable[tuple[int, Any]], rules: Rules) -> SubscriptionBatch:
    rejects: list[Reject] = []
    strangers: list[Any] = []
    messages: list[Any] = []
    good: dict[Kind, list[tuple[int, Subscription]]] = {kind: [] for kind in Kind}
    for row, item in rows:
        try:
            subscription = as_subscription(item)
            check_subscription(subscription, rules)
        except InvalidInput as error:
            rejects.append(Reject(row, error.field, str(error)))
            if not _is_row(item):
                strangers.append(item)
            if is_a(item, Message) or (type(item) is dict and _is_message(item)):
                messages.append(item)
        else:
            rules = rules._replace(id_type=id_type(subscription.id))
            good[Kind.of(subscription.query.kind)].append((row, subscription))
    n_items = len(rejects) + sum(map(len, good.values()))
    if messages and len(messages) == n_items:
        rule = "must be subscriptions, each with a kind; these are messages, which publish takes"
        raise InvalidInput("subscriptions", messages[0], rule)
    refuse_strangers("subscriptions", strangers, n_items, "a Subscription, (id, query[, expires]) or a mapping")
    parts = [_part(kind, found, rules) for kind, found in good.items() if found]
    return SubscriptionBatch(parts, rejects)


def _is_message(row: dict[str, Any]) -> bool:
    return row.get("kind") is None and row.get("text") is not None


def _is_row(item: Any) -> bool:
    return is_a(item, Subscription | Mapping) or (is_a(item, tuple) and 2 <= tuple.__len__(item) <= 3)


def _part(kind: Kind, found: list[tuple[int, Subscription]], rules: Rules) -> Part:
    rows = np.array([row for row, _ in found], dtype=np.int64)
    ids = pa.array([s.id for _, s in found])
    expires = np.array([FOREVER if s.expires is None else s.expires for _, s in found], dtype=np.int64)
    queries: list[Any] = [s.query for _, s in found]
    backfill = np.array([q.backfill for q in queries])
    where = pa.array([q.where for q in queries], pa.string())
    if kind == Kind.WITHIN:
        given = WithinRows(rows, region_rows([q.region for q in queries], rules.space), expires, backfill)
        clauses = [clauses_by(q, rules.analyzer) for q in queries]
        parts = (part for own in clauses for clause in own for part in (clause.positive, clause.negative))
        words = pa.array([list(map(term_key, part)) for part in parts], type=WORDS)
        return Part(kind, ids, given, words, np.array([len(own) for own in clauses], dtype=np.int32), where)
    words = pa.array([list(map(term_key, words_by(q, rules.analyzer))) for q in queries], type=WORDS)
    points = PointRows(
        rows,
        np.array([q.lon for q in queries], dtype=np.float64),
        np.array([q.lat for q in queries], dtype=np.float64),
        _numbers(queries, "delta"),
        _numbers(queries, "tau"),
        _numbers(queries, "alpha"),
        np.array([getattr(q, "k", 0) for q in queries], dtype=np.int32),
        np.array([_mode(q) for q in queries], dtype=np.int32),
        expires,
        backfill,
        np.array([milliseconds_in(getattr(q, "decay", None) or 0.0) for q in queries], dtype=np.int64),
    )
    return Part(kind, ids, points, words, np.zeros(0, np.int32), where)


def _numbers(queries: list[Any], field: str) -> Floats:
    """A field of queries, 0 where they have none."""
    return np.array([getattr(query, field, 0.0) for query in queries], dtype=np.float64)


def _mode(query: Similar | TopK | Nearest) -> int:
    if isinstance(query, Similar):
        return MEASURES.index(query.measure)
    return MATCHES.index(query.match) if isinstance(query, Nearest) else 0


# Bulk: rows of an Arrow table that are surely right.

_OWN_FIELDS = {
    "within": ("region", *SIDES),
    "similar": ("lon", "lat", "delta", "tau", "measure"),
    "topk": ("lon", "lat", "k", "alpha", "decay"),
    "nearest": ("lon", "lat", "k", "match"),
}
_FIELDS = ("id", "kind", "keywords", "backfill", "expires", "where")


def _sure_rows(table: pa.Table, rules: Rules) -> tuple[list[Part], Array]:
    """Parts of the rows that are surely right, and the numbers of all other rows."""
    everything = np.arange(table.num_rows)
    if not rules.analyzer.is_plain:  # which looks at every word
        return [], everything
    if not {"id", "kind", "keywords"} <= set(table.column_names) or not pa.types.is_string(table.column("kind").type):
        return [], everything
    given = bulk_id_type(table.column("id").type)
    if given is None or (rules.id_type or given) != given:
        return [], everything
    kinds = table.column("kind")
    parts, left = [], np.ones(table.num_rows, dtype=bool)
    for kind in Kind:
        if kind == Kind.TOPK and not rules.has_window:
            continue
        rows = np.flatnonzero(pc.fill_null(pc.equal(kinds, kind.label), False).to_numpy())
        if rows.size:
            fields = (*_FIELDS, *_OWN_FIELDS[kind.label])
            columns = Columns(table.take(rows) if rows.size < table.num_rows else table, fields)
            part = (
                _sure_within(columns, rows, rules) if kind == Kind.WITHIN else _sure_points(columns, kind, rows, rules)
            )
            left[rows[columns.good]] = False
            if columns.good.any():
                parts.append(part)
    return parts, np.flatnonzero(left)


def _sure_points(columns: Columns, kind: Kind, rows: Array, rules: Rules) -> Part:
    x, y = columns.numbers("lon", -LARGEST, LARGEST), columns.latitudes("lat", rules.space)
    delta = tau = alpha = np.zeros(columns.n)
    k = mode = half_life = np.zeros(columns.n, dtype=np.int64)
    if kind == Kind.SIMILAR:
        delta, tau = columns.numbers("delta", 0.0, 1.0), columns.numbers("tau", 0.0, 1.0)
        mode = columns.choice("measure", MEASURES)
    elif kind == Kind.TOPK:
        alpha, k = columns.numbers("alpha", 0.0, 1.0, 0.5), columns.whole("k", 1, 2**31 - 1, 20)
        half_life = columns.half_lives("decay")
    else:
        k, mode = columns.whole("k", 1, 2**31 - 1, 10), columns.choice("match", MATCHES)
    expires, backfill, words = (
        columns.whole("expires", -(2**63), FOREVER, FOREVER),
        columns.flags("backfill"),
        columns.words(),
    )
    where = columns.conditions()
    ids, good = columns.ids(), columns.good
    return Part(
        kind,
        ids,
        PointRows(
            rows[good], x[good], y[good], delta[good], tau[good], alpha[good], k[good].astype(np.int32),
            mode[good].astype(np.int32), expires[good], backfill[good], half_life[good],
        ),
        words.filter(pa.array(good)),
        np.zeros(0, dtype=np.int32),
        where.filter(pa.array(good)),
    )  # fmt: skip


def _sure_within(columns: Columns, rows: Array, rules: Rules) -> Part:
    boxes = columns.boxes(rules.space)
    expires, backfill, words = (
        columns.whole("expires", -(2**63), FOREVER, FOREVER),
        columns.flags("backfill"),
        columns.words(),
    )
    where = columns.conditions()
    ids, good = columns.ids(), columns.good
    columns.hint_at_operators()
    positive = words.filter(pa.array(good))
    offsets = np.repeat(
        np.concatenate([[0], np.cumsum(pc.list_value_length(positive).to_numpy(zero_copy_only=False))]), 2
    )
    clauses = pa.ListArray.from_arrays(pa.array(offsets[1:].astype(np.int32)), positive.flatten())
    return Part(
        Kind.WITHIN,
        ids,
        WithinRows(rows[good], box_rows(boxes[good]), expires[good], backfill[good]),
        clauses,
        np.ones(len(positive), dtype=np.int32),
        where.filter(pa.array(good)),
    )
