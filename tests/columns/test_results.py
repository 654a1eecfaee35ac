"""The result of a subscription, as a list and as tables."""

from __future__ import annotations

import json
import pickle

import pyarrow as pa
import pytest

from nearcast.columns.results import Results

PAIRS: list[tuple[str | int, float | None]] = [("m1", 0.83), ("m2", None)]


def test_results_are_a_list_and_a_table() -> None:
    results = Results(PAIRS)
    assert results == PAIRS
    assert results != PAIRS[:1]
    assert results[0] == ("m1", 0.83)
    assert json.loads(json.dumps(results)) == [["m1", 0.83], ["m2", None]]
    assert pickle.loads(pickle.dumps(results)).to_arrow().equals(results.to_arrow())
    assert results.to_arrow().to_pylist() == [{"message": "m1", "score": 0.83}, {"message": "m2", "score": None}]
    assert "<td>m1</td>" in results._repr_html_()


def test_no_results_have_the_types_of_the_broker() -> None:
    assert Results([], pa.int64()).to_arrow().schema.types == [pa.int64(), pa.float64()]
    assert Results([(1, 0.5)]).to_arrow().schema.types == [pa.int64(), pa.float64()]
    assert Results().to_arrow().schema.types == [pa.string(), pa.float64()]


def test_results_as_frames() -> None:
    pytest.importorskip("pandas")
    assert Results(PAIRS).to_pandas()["message"].tolist() == ["m1", "m2"]
    pytest.importorskip("polars")
    assert Results(PAIRS).to_polars().rows() == PAIRS
