"""Who is subscribed, and to what: registered subscriptions as an Arrow table that `subscribe_many` takes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from nearcast.broker.parts import Parts
from nearcast.columns.arena import Ints
from nearcast.columns.arrow_rows import mappings
from nearcast.columns.decode_subscriptions import as_subscription
from nearcast.columns.encode_subscriptions import Keywords, columns_of, keyword_column, keywords_of
from nearcast.model.kinds import LABELS, Kind
from nearcast.model.query import Subscription

ROWS = 65_536  # subscriptions written at a time


def subscription_table(numbers: Ints, parts: Parts) -> pa.Table:
    """These subscriptions in this order, in the columnar form."""
    pieces = [_piece(numbers[at : at + ROWS], parts) for at in range(0, max(numbers.size, 1), ROWS)]
    keywords = keyword_column([words for _, words in pieces])
    table = pa.concat_tables([columns for columns, _ in pieces])
    return table.add_column(2, "keywords", keywords)


def one_subscription(number: int, parts: Parts) -> Subscription:
    """A subscription as one would make it."""
    table = subscription_table(np.array([number], dtype=np.int32), parts)
    return as_subscription(mappings("subscriptions", table)[0])


def _piece(numbers: Ints, parts: Parts) -> tuple[pa.Table, Keywords]:
    """All columns but the keywords; and these, whose type is not decided yet."""
    kinds, slots = parts.registry.places(numbers)
    tables: list[pa.Table] = []
    words: list[Keywords] = []
    chosen = [np.flatnonzero(kinds == kind) for kind in Kind]
    for kind, rows in zip(Kind, chosen, strict=True):
        copied = parts.tables[kind].copy(slots[rows])
        tables.append(pa.table(columns_of(kind, copied)))
        words.append(keywords_of(kind, copied))
    order = np.argsort(np.concatenate(chosen), kind="stable")
    table = pa.concat_tables(tables).take(pa.array(order))
    labels = pa.array(LABELS).take(pa.array(kinds))
    table = table.add_column(0, "kind", labels).add_column(0, "id", parts.registry.ids.to_arrow(numbers))
    joined = Keywords(
        pa.concat_arrays([part.texts for part in words]),
        pa.concat_arrays([part.lists for part in words]),
        np.concatenate([part.is_expression for part in words]),
    )
    return table, joined.take(order)
