"""Frames of messages and of subscriptions, as callers have them, become frames of the columns that Nearcast reads.

What cannot be read whatever its rows hold, a column of the wrong type or one that is misspelt, is refused here, before
anything runs. Times become epoch milliseconds and regions JSON text, in Spark itself.

Besides the columns of `MESSAGES` and `SUBSCRIPTIONS` both frames may have

`event`     what the row asks for: ``publish``, ``update``, ``retract`` or ``advance`` among messages, ``subscribe``,
            ``unsubscribe``, ``move``, ``advance`` or ``assign`` among subscriptions; if it is null, the first of these
`position`  a whole number that orders rows of equal `ts` and `id`: the line of a file, the offset in a partition
`source`    where the row is from, which rejects repeat
`raw`       the row as it stood there, which rejects repeat
`refused`   struct<field string, reason string>: if not null, the row could not be read, and becomes a reject
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegralType,
    LongType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from nearcast.errors import InvalidInput
from nearcast.model.query import QUERIES

_SIDES = ("min_lon", "min_lat", "max_lon", "max_lat")
_QUERY = dict.fromkeys(field.name for query in QUERIES.values() for field in fields(query) if field.init)
_NUMBERS = ("lon", "lat", "alpha", "decay", "delta", "tau", *_SIDES)
_WHOLE = ("k",)
_FLAGS = ("backfill",)
_TIMES = ("ts", "expires")
BESIDE = ("event", "position", "source", "raw", "refused")
_CONTROL = ("id", "kind", *_QUERY, *_SIDES, *_TIMES, "shard")


def _type_of(name: str) -> DataType:
    if name in _NUMBERS:
        return DoubleType()
    if name in _WHOLE or name in _TIMES:
        return LongType()
    return BooleanType() if name in _FLAGS else StringType()


def _schema(*names: str) -> StructType:
    return StructType([StructField(name, _type_of(name)) for name in names])


MESSAGES = _schema("id", "lon", "lat", "text", "keywords", "ts", "expires", "fields")
SUBSCRIPTIONS = _schema("event", "id", "kind", *_QUERY, *_SIDES, *_TIMES)


def answers_schema(subscription: DataType, message: DataType) -> StructType:
    """The schema of answers over frames with ids of these types."""
    return StructType(
        [
            StructField("outcome", StringType()),  # update, reject or late
            StructField("subscription", subscription),
            StructField("message", message),
            StructField("sign", StringType()),
            StructField("score", DoubleType()),
            StructField("ts", LongType()),
            StructField("batch", LongType()),
            StructField("shard", LongType()),
            StructField("seq", LongType()),  # (batch, seq) orders the updates of a subscription
            StructField("event", StringType()),  # of rejects and late rows, as are all that follow
            StructField("field", StringType()),
            StructField("reason", StringType()),
            StructField("row", StringType()),  # JSON
            StructField("source", StringType()),
            StructField("position", LongType()),
        ]
    )


ANSWERS = answers_schema(StringType(), StringType())


class Frame(NamedTuple):
    """A frame of known columns, and the type of its ids."""

    rows: DataFrame
    id_type: DataType


def message_frame(messages: DataFrame) -> Frame:
    """The columns of messages; all others are passed over.

    Raises
    ------
    InvalidInput
        A column is missing or has a type that no message can have.
    """
    kinds = _columns("messages", messages)
    for name in ("id", "lon", "lat"):
        _require("messages", kinds, name)
    if "text" not in kinds and "keywords" not in kinds:
        raise InvalidInput("messages", sorted(kinds), "must have a column text or keywords")
    picked = _common("messages", kinds)
    for name in ("lon", "lat"):
        picked[name] = _number("messages", kinds, name)
    refused = _refused(kinds)
    text = _text("messages", kinds, "text") if "text" in kinds else None
    words = kinds.get("keywords")
    if isinstance(words, StringType):  # read as text
        keywords = _column("keywords")
        if text is not None:
            both = text.isNotNull() & keywords.isNotNull()
            reason = F.lit("keywords must be left out when text is given")
            refused = F.when(both, F.struct(F.lit("keywords").alias("field"), reason.alias("reason"))).otherwise(
                refused
            )
            text = F.coalesce(text, keywords)
        else:
            text = keywords
    elif words is not None:
        picked["keywords"] = _list("messages", kinds, "keywords")
    if text is not None:
        picked["text"] = text
    if "fields" in kinds:
        picked["fields"] = _fields("messages", kinds)
    return _selected(messages, kinds, picked, refused)


def control_frame(subscriptions: DataFrame) -> Frame:
    """The columns of subscriptions and of their events.

    Raises
    ------
    InvalidInput
        A column is missing, has a type that no subscription can have, or is none of a subscription's.
    """
    where = "subscriptions"
    kinds = _columns(where, subscriptions)
    _require(where, kinds, "id")
    for name in kinds:
        if name not in _CONTROL and name not in BESIDE:
            raise InvalidInput(where, name, "must have only columns that subscriptions have (select them)")
    picked = _common(where, kinds)
    for name in kinds:
        if name in _NUMBERS:
            picked[name] = _number(where, kinds, name)
        elif name in (*_WHOLE, "shard"):
            picked[name] = _whole(where, kinds, name)
        elif name in _FLAGS:
            picked[name] = _typed(where, kinds, name, BooleanType, "booleans")
        elif name == "keywords" and not isinstance(kinds[name], StringType):
            picked[name] = _list(where, kinds, name)
        elif name == "region" and isinstance(kinds[name], StructType | MapType | ArrayType):
            picked[name] = F.to_json(_column(name))
        elif name in _CONTROL and name not in picked and name not in _TIMES:
            picked[name] = _text(where, kinds, name)
    return _selected(subscriptions, kinds, picked, _refused(kinds))


def _columns(frame: str, given: DataFrame) -> dict[str, DataType]:
    if not hasattr(given, "sparkSession"):
        kind = type(given).__name__
        raise InvalidInput(
            frame, kind, "must be a DataFrame of Spark: spark.createDataFrame makes one of pandas frames"
        )
    kinds: dict[str, DataType] = {}
    for field in given.schema.fields:
        if field.name in kinds:
            raise InvalidInput(frame, field.name, "must have each column once")
        kinds[field.name] = field.dataType
    return kinds


def _common(frame: str, kinds: dict[str, DataType]) -> dict[str, Column]:
    """Id, times and the columns that both frames may have."""
    if not isinstance(kinds["id"], StringType | IntegralType):
        raise InvalidInput(f"{frame}.id", kinds["id"].simpleString(), "must be a column of strings or whole numbers")
    picked = {"id": _column("id") if isinstance(kinds["id"], StringType) else _column("id").cast("bigint")}
    for name in _TIMES:
        picked[name] = _time(frame, kinds, name) if name in kinds else F.lit(None).cast("bigint")
    for name in ("event", "source", "raw"):
        if name in kinds:
            picked[name] = _text(frame, kinds, name)
    position = _whole(frame, kinds, "position") if "position" in kinds else F.lit(None).cast("bigint")
    return picked | {"position": position}


def _selected(given: DataFrame, kinds: dict[str, DataType], picked: dict[str, Column], refused: Column | None) -> Frame:
    told = [column for name, column in picked.items() if name not in ("id", "ts", "position", "event", "raw", "source")]
    columns = [column.alias(name) for name, column in picked.items()]
    columns.append(F.xxhash64(*told).alias("tie"))
    if refused is not None:
        columns.append(refused.alias("refused"))
    return Frame(given.select(*columns), kinds["id"])


def _refused(kinds: dict[str, DataType]) -> Column | None:
    return _column("refused") if "refused" in kinds else None


def _column(name: str) -> Column:
    return F.col(f"`{name}`")


def _require(frame: str, kinds: dict[str, DataType], name: str) -> None:
    if name not in kinds:
        raise InvalidInput(frame, sorted(kinds), f"must have a column {name}")


def _typed(frame: str, kinds: dict[str, DataType], name: str, kind: Any, what: str) -> Column:
    if not isinstance(kinds[name], kind) and kinds[name].typeName() != "void":
        raise InvalidInput(f"{frame}.{name}", kinds[name].simpleString(), f"must be a column of {what}")
    return _column(name)


def _text(frame: str, kinds: dict[str, DataType], name: str) -> Column:
    return _typed(frame, kinds, name, StringType, "strings").cast("string")


def _number(frame: str, kinds: dict[str, DataType], name: str) -> Column:
    return _typed(frame, kinds, name, NumericType, "numbers").cast("double")


def _whole(frame: str, kinds: dict[str, DataType], name: str) -> Column:
    return _typed(frame, kinds, name, IntegralType, "whole numbers").cast("bigint")


def _list(frame: str, kinds: dict[str, DataType], name: str) -> Column:
    kind = kinds[name]
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StringType):
        raise InvalidInput(f"{frame}.{name}", kind.simpleString(), "must be a column of strings or of lists of strings")
    return _column(name)


def _fields(frame: str, kinds: dict[str, DataType]) -> Column:
    """JSON texts, or a struct of what fields may hold."""
    kind = kinds["fields"]
    if not isinstance(kind, StructType):
        return _typed(frame, kinds, "fields", StringType, "JSON texts or structs").cast("string")
    for field in kind.fields:
        inner = field.dataType
        if isinstance(inner, ArrayType) and isinstance(inner.elementType, StringType):
            continue
        if not isinstance(inner, IntegralType | FloatType | DoubleType | BooleanType | StringType):
            rule = "must be a column of numbers, strings, booleans or lists of strings"
            raise InvalidInput(f"{frame}.fields.{field.name}", inner.simpleString(), rule)
    return _column("fields")


def _time(frame: str, kinds: dict[str, DataType], name: str) -> Column:
    """A time as epoch milliseconds, finer ones floored; one without a zone is in UTC."""
    kind, column = kinds[name], _column(name)
    if isinstance(kind, IntegralType) or kind.typeName() == "void":
        return column.cast("bigint")
    if isinstance(kind, TimestampType):
        return F.unix_millis(column)
    if isinstance(kind, TimestampNTZType):
        micros = f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ '1970-01-01 00:00:00', `{name}`)"
        return F.expr(f"({micros} - pmod({micros}, 1000L)) div 1000L")
    if isinstance(kind, DateType):
        return F.datediff(column, F.lit("1970-01-01")).cast("bigint") * F.lit(86_400_000)
    raise InvalidInput(f"{frame}.{name}", kind.simpleString(), "must be a column of epoch milliseconds or timestamps")
