from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from nearcast.errors import InvalidInput
from nearcast.workload.schema import BLOCK, MOVES_POINT, blocks, generator, lists, starts, table


def test_blocks_cover_every_row_once():
    assert list(blocks(0)) == []
    assert list(blocks(BLOCK)) == [(0, 0, BLOCK)]
    assert list(blocks(BLOCK + 5)) == [(0, 0, BLOCK), (1, BLOCK, 5)]


def test_a_negative_size_is_refused():
    with pytest.raises(InvalidInput, match=r"n must be >= 0, got -1"):
        list(blocks(-1))


def test_a_generator_depends_on_every_number_of_its_seed():
    draws = [generator(*seed).random() for seed in ((1,), (1, 0, 1), (1, 1), (2,), (1,))]
    assert draws[0] == draws[-1]
    assert len(set(draws)) == 4


def test_a_table_repeats_scalars_and_leaves_the_rest_null():
    made = table(MOVES_POINT, 2, {"id": np.array([4, 5]), "ts": 9})
    assert made.to_pylist() == [
        {"id": 4, "lon": None, "lat": None, "ts": 9},
        {"id": 5, "lon": None, "lat": None, "ts": 9},
    ]


def test_lists_take_words_by_number():
    made = lists(pa.array(["a", "b", "c"]), np.array([2, 0, 2]), starts(np.array([2, 0, 1])))
    assert made.to_pylist() == [["c", "a"], [], ["c"]]
