"""`match`: messages against a set of subscriptions that stays as it is, without order, window or state.

The subscriptions become one snapshot in the store, made by one task. Every worker maps it into its memory and matches
the messages that it is given, so that the work grows with the number of cores, and messages are not copied.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

import nearcast as nc
from nearcast.columns.tokens import Spelled, SpelledMessages
from nearcast.errors import InvalidInput
from nearcast.spark.answer_rows import answer_columns, answer_table, refused_columns
from nearcast.spark.encode import encode_controls, encode_messages, gathered
from nearcast.spark.events import PUBLISH, SUBSCRIBE
from nearcast.spark.frames import answers_schema, control_frame, message_frame
from nearcast.spark.shards.blocks import Controls
from nearcast.spark.shards.fanout import Batches
from nearcast.spark.shards.shard import Stretch
from nearcast.spark.shards.store import Store
from nearcast.spark.spec import Spec, spec_of

_KINDS = ("within", "similar")
_EVENTS = ("publish", "advance")  # others need a window
_ROWS = 20_000  # messages matched at a time
_BUILT = "rows bigint, reason string"
_HELD: dict[str, nc.Broker] = {}  # by snapshot, in this process


def match(
    messages: DataFrame,
    subscriptions: DataFrame,
    *,
    space: nc.Space,
    weights: nc.Weights | None = None,
    analyzer: nc.Analyzer | None = None,
    store: str | None = None,
) -> DataFrame:
    """Which subscriptions each message matches, message by message: a frame with the columns of `ANSWERS`.

    For `Within` and `Similar`. Nothing is remembered between messages: order, expiries and equal ids do not matter.

    Parameters
    ----------
    messages
        `MESSAGES`, batch or streaming.
    subscriptions
        `SUBSCRIPTIONS`, batch, each with an id of its own. They are read at once, by a job.
    space, weights, analyzer
        As `Broker` has them.
    store
        A URI at which every host reads; needed unless Spark runs on this machine alone.

    Raises
    ------
    InvalidInput
        A subscription that cannot be honoured, and whatever `answers` refuses.
    """
    told, asked = message_frame(messages), control_frame(subscriptions)
    if subscriptions.isStreaming:
        raise InvalidInput("subscriptions", "a streaming frame", "must be a batch frame: they are read once")
    if store is None:
        master = str(messages.sparkSession.conf.get("spark.master", ""))
        if not master.startswith("local"):
            raise InvalidInput("store", None, f"must be a URI that every host of {master or 'the cluster'} reads")
        store = f"file://{tempfile.mkdtemp(prefix='nearcast-match-')}"
    Store(store).check()
    spec = spec_of(space, None, weights, 1, store, asked.id_type, told.id_type, analyzer=analyzer)
    name = f"match/{uuid.uuid4().hex}"
    built = asked.rows.coalesce(1).mapInArrow(_builder(spec, name), _BUILT).collect()
    for row in built:
        if row.reason is not None:
            raise InvalidInput("subscriptions", row.rows, f"must all be honoured ({row.reason})")
    schema = answers_schema(asked.id_type, told.id_type)
    return told.rows.mapInArrow(_matcher(spec, name), schema)


def _builder(spec: Spec, name: str) -> Callable[[Batches], Batches]:
    def build(batches: Batches) -> Batches:
        assert spec.store is not None, "the index is in a store"
        broker, reason, n = spec.broker(), None, 0
        for table in gathered(batches):
            n += table.num_rows
            reason = reason or _subscribed(broker, table, spec)
        Store(spec.store).put_snapshot(name, broker)
        yield pa.record_batch([[n], pa.array([reason], pa.string())], names=["rows", "reason"])

    return build


def _subscribed(broker: nc.Broker, table: pa.Table, spec: Spec) -> str | None:
    """Register the rows of a frame; why the first that cannot be honoured cannot."""
    encoded = encode_controls(table, spec)
    if encoded.refused.num_rows:
        return str(encoded.refused.column("reason")[0])
    for _, block in encoded.blocks:
        rows = Controls([block])
        if (rows.events != SUBSCRIBE).any():
            return "event must be subscribe"
        for column in ("expires", "kind"):
            if column in block.column_names:
                odd = _odd(block.column(column), column)
                if odd is not None:
                    return odd
        for first, last in rows.stretches(0, len(rows)):
            updates = broker.subscribe_many(Stretch(rows, first, last).table)
            if updates.rejects:
                return updates.rejects[0].reason
    return None


def _odd(column: pa.ChunkedArray, name: str) -> str | None:
    values = column.drop_null().unique().to_pylist()
    if name == "expires" and values:
        return str(InvalidInput("expires", values[0], "must be left out, since there is no clock"))
    for value in values:
        if name == "kind" and value not in _KINDS:
            return str(InvalidInput("kind", value, f"must be one of {', '.join(_KINDS)}: others need a window"))
    return None


def _matcher(spec: Spec, name: str) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        broker, schema = _index(spec, name), answer_columns(spec)
        for table in gathered(batches, _ROWS):
            encoded = encode_messages(table, spec, _EVENTS)
            if encoded.refused.num_rows:
                columns = refused_columns(schema, encoded.refused, "message")
                yield from answer_table(schema, "reject", columns, encoded.refused.num_rows).to_batches()
            for _, block in encoded.blocks:
                yield from _matched(broker, schema, block.filter(pc.equal(block.column("event"), PUBLISH))).to_batches()

    return run


def _matched(broker: nc.Broker, schema: pa.Schema, block: pa.Table) -> pa.Table:
    """What messages match, each for itself; the time of a match is that of its message."""
    words = (block.column(name) for name in Spelled._fields)
    updates = broker.publish(SpelledMessages(block.select(["id", "lon", "lat", "fields"]), *words))
    found = updates.to_arrow()
    columns = {name: found.column(name) for name in ("subscription", "message", "sign", "score")}
    columns["ts"] = block.column("ts").take(pa.array(updates.event))
    return answer_table(schema, "update", columns if len(updates) else {}, len(updates))


def _index(spec: Spec, name: str) -> nc.Broker:
    """The broker with all subscriptions, mapped once by every process."""
    if name not in _HELD:
        assert spec.store is not None, "the index is in a store"
        _HELD.clear()
        _HELD[name] = Store(spec.store).get_snapshot(name)
    return _HELD[name]
