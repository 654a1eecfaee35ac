from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from nearcast.workload import s1m
from nearcast.workload.schema import SUBSCRIPTIONS


def test_boxes_are_squares_of_the_stated_sides_and_words():
    made = s1m.s1m(40_000)
    assert made.schema == SUBSCRIPTIONS
    assert made.num_rows == 40_000
    wide = pc.subtract(made["max_lon"], made["min_lon"]).to_numpy()
    high = pc.subtract(made["max_lat"], made["min_lat"]).to_numpy()
    np.testing.assert_allclose(wide, high, atol=1e-12)
    assert 0.002 <= wide.min() < 0.0022
    assert 0.0498 < wide.max() <= 0.05 + 1e-12
    lengths = np.bincount(pc.list_value_length(made["keywords"]).to_numpy())
    assert lengths[0] == 0
    assert lengths.size == 5
    assert lengths[1:].min() > 9_000
    assert all(len(set(words)) == len(words) for words in made["keywords"][:2_000].to_pylist())
    assert set(made["kind"].unique().to_pylist()) == {"within"}


def test_a_fifth_lies_anywhere_and_the_rest_in_clusters():
    made = s1m.s1m(40_000)
    x = (made["min_lon"].to_numpy() + made["max_lon"].to_numpy()) / 2
    y = (made["min_lat"].to_numpy() + made["max_lat"].to_numpy()) / 2
    assert x.min() >= -1e-9
    assert x.max() <= 1 + 1e-9
    cells = np.bincount((np.minimum(x * 50, 49).astype(int) * 50 + np.minimum(y * 50, 49).astype(int)), minlength=2_500)
    # Uniform places alone put 3.2 rows into an average cell; clusters make some cells far fuller than others.
    assert cells.max() > 5 * 40_000 / 2_500
    assert np.median(cells) < 40_000 / 2_500


def test_the_seed_decides():
    assert s1m.s1m(50).equals(s1m.s1m(70).slice(0, 50).combine_chunks())
    assert not s1m.s1m(50, 1).equals(s1m.s1m(50, 2))
    assert s1m.s1m(0).num_rows == 0


@pytest.mark.parametrize("form", ["text", "keywords"])
def test_messages_have_four_to_ten_words(form):
    made = pa.concat_tables(s1m.messages(3_000, form=form))
    rows = made[form].to_pylist()
    lengths = {len(row.split() if form == "text" else row) for row in rows}
    assert lengths == set(range(4, 11))
