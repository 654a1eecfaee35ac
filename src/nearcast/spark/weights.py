"""Weights of words over a column of a frame: counted on executors, put together in the driver."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import nearcast as nc
from nearcast.columns.arrow_rows import is_sound
from nearcast.model.analyzer import as_analyzer
from nearcast.spark.shards.fanout import Batches


def fit_weights(frame: DataFrame, column: str = "text", *, analyzer: nc.Analyzer | None = None) -> nc.Weights:
    """`Weights` over the texts, or lists of keywords, in a column of a batch frame; nulls are not texts.

    Runs a job. The driver receives one row for each distinct word. The analyzer must be the one of the broker, or the
    `answers`, that takes the weights.
    """
    rule = as_analyzer(analyzer)
    counted = frame.select(F.col(f"`{column}`").alias("text")).mapInArrow(_counter(rule), "word string, n bigint")
    summed = counted.groupBy("word").agg(F.sum("n").alias("n")).toArrow()
    words, counts = summed.column("word").combine_chunks(), summed.column("n").to_numpy()
    known = words.is_valid().to_numpy(zero_copy_only=False)
    n_texts = int(counts[~known].sum())
    return nc.Weights.of_counts(n_texts, words.drop_null(), counts[known], rule)


def _counter(analyzer: nc.Analyzer) -> Callable[[Batches], Batches]:
    """Counts in how many texts each word of a partition is; the number of texts stands under null."""

    def count(batches: Batches) -> Batches:
        texts = [_sound(batch.column(0)) for batch in batches]
        fitted = nc.Weights.fit(pa.chunked_array(texts), analyzer) if texts else nc.Weights()
        words, counts = fitted.counts()
        schema = pa.schema([("word", pa.string()), ("n", pa.int64())])
        yield pa.record_batch(
            [pa.concat_arrays([words, pa.nulls(1, pa.string())]), [*counts.tolist(), fitted.n_texts]], schema
        )

    return count


def _sound(texts: pa.Array) -> pa.Array:
    """Texts that are UTF-8; others are no texts."""
    if is_sound(texts):
        return texts
    return pa.array([None if "\udc80" <= max(t or "", default="") <= "\udcff" else t for t in texts.to_pylist()])
