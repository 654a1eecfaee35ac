"""Weights of words over a column of a frame: counted on executors, put together in the driver."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import nearcast as nc
from nearcast.columns.arrow_rows import is_sound


def fit_weights(frame: DataFrame, column: str = "text") -> nc.Weights:
    """`Weights` over the texts, or lists of keywords, in a column of a batch frame; nulls are not texts.

    Runs a job. The driver receives one row for each distinct word.
    """
    counted = frame.select(F.col(f"`{column}`").alias("text")).mapInArrow(_count, "word string, n bigint")
    summed = counted.groupBy("word").agg(F.sum("n").alias("n")).toArrow()
    words, counts = summed.column("word").combine_chunks(), summed.column("n").to_numpy()
    known = words.is_valid().to_numpy(zero_copy_only=False)
    n_texts = int(counts[~known].sum())
    return nc.Weights.of_counts(n_texts, words.drop_null(), counts[known])


def _count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In how many texts each word of a partition is; the number of texts stands under null."""
    texts = [batch.column(0) for batch in batches]
    fitted = nc.Weights.fit(pa.chunked_array([_sound(text) for text in texts])) if texts else nc.Weights()
    words, counts = fitted.counts()
    schema = pa.schema([("word", pa.string()), ("n", pa.int64())])
    yield pa.record_batch(
        [pa.concat_arrays([words, pa.nulls(1, pa.string())]), [*counts.tolist(), fitted.n_texts]], schema
    )


def _sound(texts: pa.Array) -> pa.Array:
    """Texts that are UTF-8; others are no texts."""
    if is_sound(texts):
        return texts
    return pa.array([None if "\udc80" <= max(t or "", default="") <= "\udcff" else t for t in texts.to_pylist()])
