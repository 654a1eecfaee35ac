"""Streams whose words and places are those of data beside the project, with fields, phrases and an analyzer."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from definitions import Ground
from strategies import ANALYZERS, Event, Setting

from fuzz.streams import Crowd
from nearcast.errors import SetupError
from nearcast.model.query import Query, Within
from nearcast.model.words import words_of
from nearcast.workload import datasets

_NAMES = ("tweets_2021_2022", "airbnb_nyc_2019", "places_gnis_us", "places_geonames_world", "wikipedia_titles_es_fr_ja")
_KEPT = 20_000  # rows of a dataset that streams are drawn from
_ROWS = 400  # of one stream


@lru_cache(maxsize=len(_NAMES))
def _rows(name: str) -> list[dict[str, Any]]:
    table = datasets.read(name, columns=["lon", "lat", "text"])
    return table.take(list(range(0, table.num_rows, 1 + table.num_rows // _KEPT))).to_pylist()  # type: ignore[no-any-return]


def is_there() -> bool:
    """Is there a folder of data?"""
    try:
        datasets.find_folder()
    except SetupError:
        return False
    return True


def stored(seed: int) -> tuple[Setting, list[Event]]:
    """Some hundred events of real words at real places."""
    maker = Stored(seed)
    setting, events = maker.stream(maker.pick.choice((250, 500)), (1, 3, 10, 40))
    return dataclasses.replace(setting, analyzer=maker.analyzer), events


class Stored(Crowd):
    """Makes a stream from a few hundred rows of one dataset."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        pick = self.pick = random.Random(seed)
        self.rows = pick.sample(_rows(pick.choice(_NAMES)), _ROWS)
        lons, lats = ([row[name] for row in self.rows] for name in ("lon", "lat"))
        self.ground = Ground((min(lons), min(lats), max(lons), max(lats)), "haversine")
        counts = Counter(word for row in self.rows for word in words_of(row["text"]))
        self.words, self.shares = list(counts), list(counts.values())
        self.kinds = ("within", "similar", "topk", "nearest")
        self.updates, self.asks = pick.choice((1, 4)), pick.choice((3, 40))
        self.analyzer = pick.choice(ANALYZERS)

    def some_words(self, n: int) -> list[str]:
        """Words as often as they are there, or those of a row as they stand."""
        if n > 1 and self.pick.random() < 0.5:
            words = list(words_of(self.pick.choice(self.rows)["text"]))
            return words[:n] if len(words) >= n else super().some_words(n)
        return super().some_words(n)

    def place(self) -> tuple[float, float]:
        if self.pick.random() < 0.05:
            return super().place()
        row = self.pick.choice(self.rows)
        off = self.pick.choice((0.0, 0.0, 0.01, 1.0))
        return row["lon"] + self.pick.uniform(-off, off), max(
            -90.0, min(90.0, row["lat"] + self.pick.uniform(-off, off))
        )

    def within(self) -> Query:
        """Also phrases of three words and prefixes as they stand in a text."""
        text = words_of(self.pick.choice(self.rows)["text"])
        at = self.pick.randrange(max(1, len(text) - 2))
        run: Sequence[str] = text[at : at + self.pick.choice((2, 3))]
        shape = self.pick.choice(('"{}"', '"{}" OR {}*', '{}* NOT "{}"', "{}*"))
        words, first = " ".join(run), run[0] if run else "w"
        given = {'"{}"': (words,), '"{}" OR {}*': (words, first[:3]), '{}* NOT "{}"': (first[:2], words)}
        try:
            query = Within(self.region(), shape.format(*given.get(shape, (first[:4],))), self.backfill, self.where())
        except ValueError:  # too short for a prefix, or empty
            return super().within()
        return query if self.pick.random() < 0.5 else super().within()
