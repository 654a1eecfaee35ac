"""Column names and types of everything the pipeline writes or passes on, once."""

from __future__ import annotations

import pyarrow as pa

from nearcast.columns.tokens import COUNTS, WORDS

# What a row asks for. A row that could not be read at all is carried along as REFUSED, so that it is reported once.
SUBSCRIBE, UNSUBSCRIBE, MOVE, PUBLISH, REFUSED = 0, 1, 2, 3, 4
EVENT_NAMES = {"subscribe": SUBSCRIBE, "unsubscribe": UNSUBSCRIBE, "move": MOVE, "publish": PUBLISH}

# One row per input row, in the order of `intake.ORDER`.
EVENTS = pa.schema(
    [
        ("event", pa.int8()),  # one of the numbers above
        ("ts", pa.int64()),  # orders events; for messages also their time
        ("number", pa.int64()),  # the id, if it is an integer
        ("name", pa.string()),  # the id, if it is a string
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        ("text", pa.string()),
        ("keywords", pa.list_(pa.string())),
        ("expires", pa.int64()),
        ("spec", pa.string()),  # of subscribe and move: the JSON form
        ("source", pa.string()),  # the file
        ("file", pa.int32()),  # its place in the order in which the files of one intake are read
        ("row", pa.int64()),  # line or row number in the file, from 1
        ("raw", pa.string()),  # the row as it stands in the file; null if the other columns say it all
        ("field", pa.string()),  # of REFUSED: what is wrong
        ("reason", pa.string()),
    ]
)

# What is written down as a batch has the words of messages, too, so that no shard has to split a text.
BATCH = pa.schema([*EVENTS, ("words", WORDS), ("counts", COUNTS)])
ROUTE = pa.schema([("shard", pa.int32())])  # of each row of a batch: where it goes; -1 everywhere
ORDER = pa.schema([("number", pa.int64()), ("name", pa.string()), ("giver", pa.int32()), ("taker", pa.int32())])

MESSAGE_COLUMNS = ("lon", "lat", "text", "keywords", "ts", "expires")  # and `id`, taken from `number` or `name`

# Output. (batch, seq) orders the updates of any one subscription; across subscriptions there is no order.
UPDATE_COLUMNS = ("subscription", "message", "sign", "score", "ts", "batch", "seq")
REJECT_COLUMNS = ("source", "row", "text", "field", "reason")
