"""Messages from nothing: Zipf words at clustered places, in any number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.errors import InvalidInput
from nearcast.workload.schema import (
    BLOCK,
    MESSAGES_KEYWORDS,
    MESSAGES_TEXT,
    Bounds,
    Floats,
    Ints,
    blocks,
    generator,
    lists,
    starts,
    table,
)

UNIT: Bounds = (0.0, 0.0, 1.0, 1.0)
START_TS = 1_700_000_000_000  # epoch milliseconds of the first generated message
MAX_WORDS = 10**8

_SYLLABLES = [consonant + vowel for consonant in "bcdfghjklmnprstvwyzq" for vowel in "aeiou"]
_MIX = 618_033_989  # odd and no multiple of 5: multiplying by it permutes the numbers below any power of 100
_CLUSTERS, _ROWS = 1, 2  # what a seed is used for


def vocabulary(n: int) -> pa.Array:
    """`n` distinct pronounceable words, such as ``dusota``; word i is the same for every n up to a million."""
    if not 1 <= n <= MAX_WORDS:
        raise InvalidInput("vocabulary", n, f"must be from 1 to {MAX_WORDS}")
    n_syllables = 3 if n <= 100**3 else 4
    numbers = (np.arange(n, dtype=np.int64) + 1) * _MIX % 100**n_syllables
    syllables = pa.array(_SYLLABLES)
    parts = [syllables.take(pa.array(numbers // 100**place % 100)) for place in range(n_syllables)]
    return pc.binary_join_element_wise(*parts, "")


class Zipf:
    """Draws numbers 0 .. n - 1, number i with probability proportional to ``1 / (i + 1) ** exponent``."""

    def __init__(self, n: int, exponent: float = 1.0) -> None:
        if n < 1:
            raise InvalidInput("vocabulary", n, "must be >= 1")
        cumulative = np.cumsum(np.arange(1, n + 1, dtype=np.float64) ** -exponent)
        self.n = n
        self._cumulative = cumulative / cumulative[-1]

    def draw(self, rng: np.random.Generator, size: int) -> Ints:
        """`size` independent numbers."""
        return np.searchsorted(self._cumulative, rng.random(size), side="right").astype(np.int64)

    def draw_distinct(self, rng: np.random.Generator, counts: Ints) -> Ints:
        """Numbers for rows of `counts` entries, row after row, no number twice in a row.

        A number that its row already holds is drawn again, which is drawing without replacement.
        """
        if counts.size and 2 * int(counts.max()) > self.n:
            raise InvalidInput("vocabulary", self.n, f"must be at least twice the words of a row ({counts.max()})")
        rows = np.repeat(np.arange(counts.size), counts)
        numbers = self.draw(rng, rows.size)
        suspects = np.arange(rows.size)
        while suspects.size:
            order = suspects[np.lexsort((suspects, numbers[suspects], rows[suspects]))]
            again = order[1:][(rows[order][1:] == rows[order][:-1]) & (numbers[order][1:] == numbers[order][:-1])]
            numbers[again] = self.draw(rng, again.size)
            touched = np.zeros(counts.size, bool)
            touched[rows[again]] = True
            suspects = np.flatnonzero(touched[rows]) if again.size else again
        return numbers


@dataclass(frozen=True, slots=True)
class Clusters:
    """Places drawn around Gaussian centres, a share of them anywhere.

    Parameters
    ----------
    bounds
        The space; a point that falls outside is mirrored back at the border.
    centres
        float64[n, 2]: the middle of each cluster.
    spread
        Standard deviation, as a share of the space's side.
    uniform
        Share of the points drawn uniformly from the space.
    """

    bounds: Bounds
    centres: Floats
    spread: float = 0.02
    uniform: float = 0.2

    @classmethod
    def scattered(
        cls, n: int, seed: int, bounds: Bounds = UNIT, *, spread: float = 0.02, uniform: float = 0.2
    ) -> Clusters:
        """`n` clusters with centres anywhere in the space."""
        if n < 1:
            raise InvalidInput("clusters", n, "must be >= 1")
        centres = generator(seed, _CLUSTERS).random((n, 2))
        return cls(bounds, _scaled(centres, bounds), spread, uniform)

    def draw(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        """`n` places: x and y."""
        low = np.array(self.bounds[:2])
        side = np.array(self.bounds[2:]) - low
        centres = (self.centres[rng.integers(0, len(self.centres), n)] - low) / side
        points = centres + rng.normal(0.0, self.spread, (n, 2))
        points = 1.0 - np.abs(1.0 - np.abs(points) % 2.0)
        anywhere = rng.random(n) < self.uniform
        points[anywhere] = rng.random((n, 2))[anywhere]
        placed = _scaled(points, self.bounds)
        return placed[:, 0].copy(), placed[:, 1].copy()


def _scaled(points: Floats, bounds: Bounds) -> Floats:
    """Points of the unit square, moved into `bounds`."""
    low, high = np.array(bounds[:2]), np.array(bounds[2:])
    placed: Floats = np.clip(low + points * (high - low), low, high)
    return placed


def messages(
    n: int,
    seed: int,
    *,
    bounds: Bounds = UNIT,
    n_vocabulary: int = 100_000,
    exponent: float = 1.0,
    words: tuple[int, int] = (4, 10),
    n_clusters: int = 200,
    spread: float = 0.02,
    uniform: float = 0.2,
    start_ts: int = START_TS,
    rate: float = 1_000.0,
    form: str = "text",
) -> Iterator[pa.Table]:
    """Messages in time order, in tables of at most `BLOCK` rows.

    Parameters
    ----------
    words
        Fewest and most words of a message; they are distinct within it.
    rate
        Messages a second, on average; gaps are exponential.
    form
        ``"text"`` for one string of words, ``"keywords"`` for a list.
    """
    check_words(words)
    if form not in ("text", "keywords"):
        raise InvalidInput("form", form, "must be 'text' or 'keywords'")
    if not rate > 0:
        raise InvalidInput("rate", rate, "must be > 0")
    spelled = vocabulary(n_vocabulary)
    zipf = Zipf(n_vocabulary, exponent)
    clusters = Clusters.scattered(n_clusters, seed, bounds, spread=spread, uniform=uniform)
    elapsed_ms = 0.0
    for number, first, size in blocks(n):
        rng = generator(seed, _ROWS, number)
        x, y = clusters.draw(rng, BLOCK)
        counts = rng.integers(words[0], words[1] + 1, BLOCK)
        row_start = starts(counts)
        keywords = lists(spelled, zipf.draw_distinct(rng, counts), row_start)
        times = elapsed_ms + np.cumsum(rng.exponential(1_000.0 / rate, BLOCK))
        elapsed_ms = float(times[-1])
        columns = {
            "id": np.arange(first + 1, first + BLOCK + 1),
            "lon": x,
            "lat": y,
            "ts": start_ts + times.astype(np.int64),
            form: keywords if form == "keywords" else pc.binary_join(keywords, " "),
        }
        schema = MESSAGES_KEYWORDS if form == "keywords" else MESSAGES_TEXT
        yield table(schema, BLOCK, columns).slice(0, size)


def check_words(words: tuple[int, int]) -> None:
    """Refuse a range of words per row that is empty or starts below 1."""
    if not 1 <= words[0] <= words[1]:
        raise InvalidInput("words", words, "must be (fewest, most) with 1 <= fewest <= most")
