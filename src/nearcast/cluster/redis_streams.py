"""Redis Streams in and out: entries become events with the offset they end at; updates become entries, each once.

An entry's field `json` holds one row in the JSON form. In: what was read counts from the moment that the intake's
head, which holds the offset too, is replaced, so that an entry is taken once, whenever a run is killed. Out: updates
are entered piece by piece, each in one transaction with how many of its file are there then, so that none is entered
again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from nearcast.cluster.decode import Decoder
from nearcast.cluster.streams import AT_ONCE, Offset, name_in
from nearcast.errors import SetupError

_START = "0-0"
_FIELD = b"json"


class RedisStream:
    """A stream.

    Parameters
    ----------
    address
        redis://HOST[:PORT]/NAME
    run
        For a stream of updates: the run that they are of. A stream may have those of several.

    Raises
    ------
    InvalidInput
        For an address without a name.
    SetupError
        If the client is not installed, or the server does not answer.
    """

    def __init__(self, address: str, run: str = "") -> None:
        try:
            import redis
        except ImportError:
            raise SetupError("redis is not installed. Run: pip install 'nearcast[redis]'") from None
        parts = urlsplit(address)
        self.address = address
        self._name = name_in(parts.path, address, "redis://HOST:PORT/NAME")
        self._mark = f"{self._name}:nearcast:{run}"  # how many of its batches have been entered
        self._errors = redis.RedisError
        self._client: Any = redis.Redis(parts.hostname or "localhost", parts.port or 6379)
        self._ask("ping")

    def _ask(self, what: str, *given: Any, **named: Any) -> Any:
        try:
            return getattr(self._client, what)(*given, **named)
        except self._errors as error:
            raise SetupError(f"Redis at {self.address}: {error}") from error

    def n_behind(self, offset: Offset) -> int:
        """How many entries stand behind an offset, at most; 0 if there are none."""
        if not self._ask("xrange", self._name, f"({offset.entry or _START}", count=1):
            return 0
        known = self._ask("xinfo_stream", self._name)
        length = int(known["length"])
        return max(1, min(length, int(known.get("entries-added", length)) - offset.n_read))

    def read(self, role: str, number: int, offset: Offset) -> Iterator[tuple[pa.Table, Offset]]:
        """What stands behind an offset, in pieces, and where each ends; `number` is the column ``file``."""
        end = self._ask("xrevrange", self._name, count=1)
        last = end[0][0] if end else None
        while last is not None:
            entries = self._ask("xrange", self._name, f"({offset.entry or _START}", last, count=AT_ONCE)
            if not entries:
                return
            decoder = Decoder(self.address, number, role)
            for row, (_, fields) in enumerate(entries, offset.n_read + 1):
                raw = fields.get(_FIELD)
                if raw is None:
                    decoder.refuse(row, str(fields), "json", "json is required: the field that holds the row")
                else:
                    decoder.add_text(row, raw.decode(errors="backslashreplace"))
            offset = Offset(entries[-1][0].decode(), offset.n_read + len(entries))
            yield decoder.table(), offset

    @property
    def n_batches(self) -> int:
        """Batches whose updates have been entered."""
        return int(self._ask("get", self._mark) or 0)

    def enter(self, batch: int, places: list[Path]) -> None:
        """Enter the updates of a batch, which stand in these files, but for those that are there already."""
        for place in places:
            mark = f"{self._mark}:{place.stem}"
            n_there, n_read = int(self._ask("get", mark) or 0), 0
            for piece in _pieces(place):
                n_read += len(piece)
                new = piece[max(0, len(piece) - max(0, n_read - n_there)) :]
                if new:
                    self._transact(new, mark, n_read)
        self._transact([], self._mark, batch + 1, [f"{self._mark}:{place.stem}" for place in places])

    def _transact(self, rows: list[dict[str, Any]], mark: str, number: int, over: Sequence[str] = ()) -> None:
        """Enter rows and set a mark, and forget those that are `over`, at once or not at all."""
        try:
            with self._client.pipeline(transaction=True) as transaction:
                for row in rows:
                    transaction.xadd(self._name, {_FIELD: json.dumps(row, ensure_ascii=False)})
                transaction.set(mark, number)
                if over:
                    transaction.delete(*over)
                transaction.execute()
        except self._errors as error:
            raise SetupError(f"Redis at {self.address}: {error}") from error


def enter_updates(sink: RedisStream, out: Path, next_batch: int) -> None:
    """Bring a stream of updates up to a batch, from the files that shards wrote."""
    for batch in range(sink.n_batches, next_batch):
        sink.enter(batch, sorted((out / "updates").glob(f"part-{batch:08d}-*")))


def _pieces(place: Path) -> Iterator[list[dict[str, Any]]]:
    """The updates in a file, some at a time."""
    if place.suffix == ".parquet":
        with pq.ParquetFile(place) as file:
            for batch in file.iter_batches(AT_ONCE):
                yield batch.to_pylist()
    else:
        with open(place, encoding="utf-8") as lines:
            while some := [json.loads(line) for line in islice(lines, AT_ONCE)]:
                yield some
