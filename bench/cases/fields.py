"""`Within` subscriptions that ask for fields as well: what a `where` costs or saves behind the broker's door."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from bench.cases.messages import Stream
from bench.cases.within import Delivery, Drawing
from nearcast.workload.schema import generator

N_VALUES = 10  # of each field: a tenth of all messages has a value
_FIELDS, _ASKED = 40, 41  # what a seed is used for


class FieldStream(Stream):
    """The same messages, each with a category, one of ten, and a price from 0 to 100."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(name, seed)
        self._rng = generator(seed, _FIELDS)

    def take(self, n: int) -> pa.Table:
        taken = super().take(n)
        kinds = pa.array([f"kind{i}" for i in range(N_VALUES)]).take(pa.array(self._rng.integers(0, N_VALUES, n)))
        prices = pa.array(self._rng.integers(0, 10_000, n) / 100.0)
        return taken.append_column("fields", pa.StructArray.from_arrays([kinds, prices], ["category", "price"]))


class Asking(Delivery):
    """Subscriptions whose `where` a tenth of all messages satisfies, each its own tenth.

    `where` is "plain" (nobody asks, and messages have no fields), "none" (nobody asks), "=" (a category), "<" (a range
    of prices) or "both", each for a third.
    """

    def prepare(self) -> None:
        self._asked = generator(self.seed, _ASKED)
        super().prepare()

    def new_stream(self) -> Stream:
        kind = Stream if self.sizes["where"] == "plain" else FieldStream
        return kind(self.sizes["messages"], self.seed)

    def given(self, drawing: Drawing) -> pa.Table:
        table = super().given(drawing)
        n, sort = table.num_rows, self.sizes["where"]
        if sort in ("plain", "none"):
            return table
        kinds = self._asked.integers(0, N_VALUES, n)
        lows = self._asked.integers(0, 900, n) / 10.0
        if sort == "=":
            texts = [f"category = 'kind{kind}'" for kind in kinds]
        elif sort == "<":
            texts = [f"price >= {low} AND price < {low + 10.0:.1f}" for low in lows]
        else:
            lows = self._asked.integers(0, 666, n) / 10.0
            thirds = [", ".join(f"'kind{(kind + i) % N_VALUES}'" for i in range(3)) for kind in kinds]
            texts = [
                f"category IN ({third}) AND price >= {low} AND price < {low + 33.3:.1f}"
                for third, low in zip(thirds, lows, strict=True)
            ]
        where = np.array(texts, dtype=object)
        return table.append_column("where", pa.array(where, pa.string()))
