"""A name and a seed go in; an endless stream of messages comes out, synthetic or from the data beside the project."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, islice

import numpy as np
import pyarrow as pa

from nearcast import InvalidInput, Message, SetupError, Space
from nearcast.columns.decode_messages import decode_messages
from nearcast.window.live import LiveMessages, Steps
from nearcast.workload import datasets, s1m, zipf

SYNTHETIC = "zipf"
S1M = "s1m"
LONG = {"ais_20news": ("traj_ais_us_2020", 50), "vehicles_20news": ("traj_vehicles_athens", 30)}  # places, words


class Stream:
    """Messages in order, with ids from 1 on; `take` gives the next of them.

    `name` is "zipf", "s1m" or a dataset, which is shuffled and begins again when it ends. Those in `LONG` are places of
    ships or vehicles, each with that many words in a row of a text from 20 newsgroups, as AP-Tree 5.1.1 makes them. A
    dataset that is not there is replaced by "zipf"; `source` says what was used.
    """

    def __init__(self, name: str, seed: int) -> None:
        self.source = name
        self._seed = seed
        self._next_id = 1
        self._rest: list[pa.Table] = []
        stored = None
        if name not in (SYNTHETIC, S1M):
            try:
                stored = (
                    tagged(*LONG[name], seed) if name in LONG else datasets.read(name, columns=["lon", "lat", "text"])
                )
            except SetupError:
                self.source = f"{SYNTHETIC}, without {name}"
        if stored is None:
            self.space = Space(zipf.UNIT, metric="euclidean")
            rest = islice((s1m if name == S1M else zipf).messages(10**9, seed), 1, None)
            self._tables = chain([_first_block(name, seed)], rest)
        else:
            lon, lat = stored["lon"].to_numpy(), stored["lat"].to_numpy()
            plane = max(np.abs(lon).max(), np.abs(lat).max()) > 360
            metric = "euclidean" if plane else "haversine"
            self.space = Space((lon.min(), lat.min(), lon.max(), lat.max()), metric=metric)
            self._tables = self._again(stored)

    def _again(self, stored: pa.Table) -> Iterator[pa.Table]:
        rng = np.random.default_rng(self._seed)
        while True:
            yield stored.take(pa.array(rng.permutation(stored.num_rows))).combine_chunks()

    def take(self, n: int) -> pa.Table:
        """The next `n` messages: columns id, lon, lat, text, ts, a thousand to the second."""
        if n < 1:
            raise InvalidInput("n", n, "must be >= 1")
        have = sum(table.num_rows for table in self._rest)
        while have < n:
            self._rest.append(next(self._tables).select(["lon", "lat", "text"]))
            have += self._rest[-1].num_rows
        joined = pa.concat_tables(self._rest)
        self._rest = [joined.slice(n)]
        ids = np.arange(self._next_id, self._next_id + n)
        self._next_id += n
        taken = joined.slice(0, n).combine_chunks()
        return taken.add_column(0, "id", pa.array(ids)).append_column("ts", pa.array(zipf.START_TS + ids))


def tagged(places: str, n_words: int, seed: int) -> pa.Table:
    """Places of a trajectory, each with `n_words` words in a row of a random text of 20 newsgroups."""
    at = datasets.read(places)
    lon, lat = (at["lon"], at["lat"]) if "lon" in at.column_names else (at["x"], at["y"])
    texts = [text.split() for text in datasets.read("words_20newsgroups_bags", columns=["text"])["text"].to_pylist()]
    texts = [words for words in texts if len(words) >= n_words]
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, len(texts), at.num_rows)
    starts = (rng.random(at.num_rows) * np.array([len(texts[i]) - n_words + 1 for i in chosen.tolist()])).astype(int)
    said = [" ".join(texts[i][s : s + n_words]) for i, s in zip(chosen.tolist(), starts.tolist(), strict=True)]
    return pa.table({"lon": lon, "lat": lat, "text": pa.array(said)})


@lru_cache(maxsize=4)
def _first_block(name: str, seed: int) -> pa.Table:
    """The first synthetic messages, kept: guards make hundreds of small streams."""
    return next((s1m if name == S1M else zipf).messages(10**9, seed))


def batches(table: pa.Table, size: int) -> list[pa.Table]:
    """The table cut into batches."""
    return [table.slice(at, size) for at in range(0, table.num_rows, size)]


def as_messages(table: pa.Table) -> list[Message]:
    """The rows as objects, for the judge."""
    return [Message(**row) for row in table.to_pylist()]


def admit(live: LiveMessages, space: Space, batch: pa.Table) -> Steps:
    """Take a batch of new messages in."""
    return live.admit(decode_messages(batch, space, live.table.ids.type))[0]
