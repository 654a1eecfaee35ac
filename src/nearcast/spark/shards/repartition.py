"""`repartition` gives the checkpoint of a query another number of partitions, so that it can have more shards.

Spark writes the state of the last batch once more, spread over the new partitions, under a batch of its own that reads
nothing. Source offsets stay where they are. The next batch finds the shards of the last one by their heads in the
store, and makes the new number of them.
"""

from __future__ import annotations

from typing import Any

from nearcast.errors import InvalidInput, SetupError, shown
from nearcast.model.checks import whole
from nearcast.spark.shards.store import Store

_LOG = "_spark_metadata"  # in the folder of Spark's file sink: what each batch has written
_COMPACT_EVERY = 10  # spark.sql.streaming.fileSink.log.compactInterval
_VERSION = "v1"


def repartition(spark: Any, checkpoint: str, partitions: int, output: str | None = None) -> None:
    """Give a checkpoint whose query does not run another number of partitions, and with it room for other shards.

    Set ``spark.sql.shuffle.partitions`` to the same number afterwards, and start the query with the shards you want.
    It may be called again if it was interrupted.

    Parameters
    ----------
    checkpoint, output
        A path or URI. `output` is the folder of Spark's file sink, if that is where answers go: its list of batches
        must know of the one that is added here. Other sinks need nothing.

    Raises
    ------
    SetupError
        Spark cannot do it.
    InvalidInput
        There is no checkpoint of a query, or its last batch was interrupted.
    """
    partitions = whole("partitions", partitions, 1, 4096)
    manager = getattr(spark, "_streamingCheckpointManager", None)
    if manager is None:
        raise SetupError(
            "this session cannot give a checkpoint other partitions: do it in a session of Spark 4.2 or newer that is "
            "not Spark Connect"
        )
    place = Store(checkpoint if "://" in checkpoint else f"file://{checkpoint}")
    if not _batches(place):
        raise InvalidInput("checkpoint", checkpoint, "must be the checkpoint of a streaming query that has run")
    if max(_batches(place, "offsets")) > max(_batches(place)):
        raise InvalidInput(
            "checkpoint",
            checkpoint,
            "must have no unfinished batch: start its query once more with as many shards as before, then come back",
        )
    try:
        manager.repartition(checkpoint, partitions, True)
    except Exception as error:
        if "ALREADY_MATCH" not in str(error):
            raise SetupError(f"Spark could not give {checkpoint} other partitions: {shown(error)}") from error
    if output is not None:
        _note_empty(Store(output if "://" in output else f"file://{output}"), max(_batches(place)))


def _batches(place: Store, log: str = "commits") -> list[int]:
    return [int(name) for name in place.names(log) if name.isdigit()]


def _note_empty(folder: Store, batch: int) -> None:
    """Have the log of a file sink say that a batch wrote nothing; some of its entries repeat all before them."""
    if batch % _COMPACT_EVERY != _COMPACT_EVERY - 1:
        if folder.get(f"{_LOG}/{batch}") is None:
            folder.put(f"{_LOG}/{batch}", _VERSION.encode())
        return
    first = batch - _COMPACT_EVERY
    names = ([f"{first}.compact"] if first >= 0 else []) + [str(number) for number in range(first + 1, batch)]
    told = [folder.need(f"{_LOG}/{name}").to_pybytes().decode().splitlines()[1:] for name in names]
    lines = [_VERSION, *(line for part in told for line in part)]
    folder.put(f"{_LOG}/{batch}.compact", "\n".join(lines).encode())
