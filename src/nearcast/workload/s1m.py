"""The workload `s1m`: a million boxes with a few Zipf words each, and the messages that go with them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from nearcast.workload import zipf
from nearcast.workload.schema import BLOCK, BOX, SUBSCRIPTIONS, blocks, generator, lists, starts, table

SEED = 20_240_501
BOUNDS = zipf.UNIT
N_VOCABULARY = 20_000
N_CLUSTERS = 200
SIDES = (0.002, 0.05)  # shortest and longest side of a box, as a share of the space's side
WORDS = (1, 4)
MESSAGE_WORDS = (4, 10)

_BOXES = 3  # what a seed is used for; `zipf` has the others


def s1m(n: int = 1_000_000, seed: int = SEED) -> pa.Table:
    """The subscriptions as one table: squares around clustered places, 1 to 4 distinct words each."""
    return pa.concat_tables([SUBSCRIPTIONS.empty_table(), *subscriptions(n, seed)])


def subscriptions(n: int = 1_000_000, seed: int = SEED) -> Iterator[pa.Table]:
    """The same in tables of at most `BLOCK` rows, for sizes that should not stand in memory at once."""
    spelled = zipf.vocabulary(N_VOCABULARY)
    words = zipf.Zipf(N_VOCABULARY)
    clusters = zipf.Clusters.scattered(N_CLUSTERS, seed, BOUNDS)
    for number, first, size in blocks(n):
        rng = generator(seed, _BOXES, number)
        x, y = clusters.draw(rng, BLOCK)
        half = rng.uniform(*SIDES, BLOCK) / 2
        counts = rng.integers(WORDS[0], WORDS[1] + 1, BLOCK)
        columns = {
            "id": range(first + 1, first + BLOCK + 1),
            "kind": "within",
            "keywords": lists(spelled, words.draw_distinct(rng, counts), starts(counts)),
            "backfill": True,
            **dict(zip(BOX, (x - half, y - half, x + half, y + half), strict=True)),
        }
        yield table(SUBSCRIPTIONS, BLOCK, columns).slice(0, size)


def messages(n: int, seed: int = SEED, *, form: str = "text") -> Iterator[pa.Table]:
    """Messages of 4 to 10 words around the same clusters, in tables of at most `BLOCK` rows."""
    return zipf.messages(
        n, seed, bounds=BOUNDS, n_vocabulary=N_VOCABULARY, n_clusters=N_CLUSTERS, words=MESSAGE_WORDS, form=form
    )
