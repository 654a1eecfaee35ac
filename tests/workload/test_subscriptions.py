from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from nearcast.errors import InvalidInput
from nearcast.model.codec import subscription_from_json
from nearcast.model.words import words_of
from nearcast.workload import subscriptions, zipf
from nearcast.workload.schema import BOX, SUBSCRIPTIONS
from nearcast.workload.subscriptions import Source

N = 1_500


@pytest.fixture(scope="module")
def messages():
    return pa.concat_tables(zipf.messages(500, 1, words=(1, 8), n_vocabulary=400, uniform=1.0))


@pytest.fixture(scope="module")
def source(messages):
    return Source.of(messages)


def whole(tables):
    return pa.concat_tables(tables)


def test_a_source_keeps_each_word_of_a_message_once_and_drops_what_is_asked():
    table = pa.table({"lon": [1.0, 2.0, 3.0], "lat": [4.0, 5.0, 6.0], "text": ["Ramen ramen, the best", "", "the"]})
    source = Source.of(table, drop={"the"})
    assert source.lon.tolist() == [1.0]
    assert sorted(source.words.take(pa.array(source.numbers)).to_pylist()) == ["best", "ramen"]
    assert Source.of(table).lon.tolist() == [1.0, 3.0]


def test_a_source_reads_keywords_too():
    table = pa.table({"lon": [1.0], "lat": [4.0], "keywords": [["New York", "pizza"]]})
    source = Source.of(table)
    assert sorted(source.words.to_pylist()) == ["new york", "pizza"]


def test_messages_without_words_are_refused():
    table = pa.table({"lon": [1.0], "lat": [4.0], "text": ["..."]})
    with pytest.raises(InvalidInput, match="messages must hold a message with words"):
        Source.of(table)


def test_place_and_words_come_from_one_message(messages, source):
    said = {}
    for row in messages.to_pylist():
        said.setdefault((row["lon"], row["lat"]), set()).update(words_of(row["text"]))
    made = whole(subscriptions.topk(source, N, 3)).to_pylist()
    for row in made:
        assert set(row["keywords"]) <= said[row["lon"], row["lat"]]
        assert 1 <= len(row["keywords"]) == len(set(row["keywords"])) <= 5
    assert {len(row["keywords"]) for row in made} == {1, 2, 3, 4, 5}


def test_boxes_cover_the_stated_share_of_the_space(source):
    made = whole(subscriptions.within(source, N, 3, bounds=(-1.0, -1.0, 2.0, 2.0)))
    low_x, low_y, top_x, top_y = (made[name].to_numpy() for name in BOX)
    area = (top_x - low_x) * (top_y - low_y) / 9
    assert area.min() >= 0.0001 - 1e-12
    assert area.max() <= 0.01 + 1e-12
    assert area.mean() == pytest.approx((0.0001 + 0.01) / 2, rel=0.1)


def test_boxes_end_at_the_border_of_the_space(source):
    made = whole(subscriptions.within(source, N, 3, areas=(0.5, 1.0)))
    low_x, low_y, top_x, top_y = source.bounds
    assert pc.min(made["min_lon"]).as_py() >= low_x
    assert pc.max(made["max_lon"]).as_py() <= top_x
    assert pc.min(made["min_lat"]).as_py() >= low_y
    assert pc.max(made["max_lat"]).as_py() <= top_y


def test_parameters_are_the_papers_own(source):
    similar = whole(subscriptions.similar(source, N, 3))
    assert 0 <= pc.min(similar["delta"]).as_py() < 0.02
    assert 0.98 < pc.max(similar["delta"]).as_py() <= 1
    assert 0.5 <= pc.min(similar["tau"]).as_py() < 0.51
    assert 0.99 < pc.max(similar["tau"]).as_py() <= 1
    topk = whole(subscriptions.topk(source, N, 3))
    assert set(topk["k"].to_pylist()) == {20}
    assert 0 <= pc.min(topk["alpha"]).as_py() < 0.02
    assert 0.98 < pc.max(topk["alpha"]).as_py() <= 1
    assert set(whole(subscriptions.nearest(source, N, 3))["k"].to_pylist()) == {20}
    some = whole(subscriptions.nearest(source, N, 3, match="any", backfill=False))
    assert set(some["k"].to_pylist()) == set(range(1, 11))
    assert set(some["backfill"].to_pylist()) == {False}


def test_every_row_is_a_valid_subscription(source):
    made = whole(subscriptions.mixed(source, 500, 9, expires=(10, 20)))
    assert made.schema == SUBSCRIPTIONS
    assert made["id"].to_pylist() == list(range(1, 501))
    kinds = []
    for row in made.to_pylist():
        box = [row.pop(name) for name in BOX]
        if box[0] is not None:
            row["region"] = box
        checked = subscription_from_json(row)
        assert 10 <= checked.expires <= 20
        kinds.append((checked.query.kind, row["match"]))
    counts = {kind: kinds.count(kind) for kind in set(kinds)}
    assert set(counts.values()) == {100}
    assert set(counts) == {
        ("within", None),
        ("similar", None),
        ("topk", None),
        ("nearest", "all"),
        ("nearest", "any"),
    }


def test_shares_weigh_the_kinds(source):
    made = whole(subscriptions.mixed(source, 300, 9, shares={"topk": 2, "within": 1}))
    assert made["kind"].to_pylist() == ["topk"] * 200 + ["within"] * 100
    for shares in ({}, {"topk": 0.0}, {"nearest": 1.0}, {"topk": -1.0, "within": 3.0}):
        with pytest.raises(InvalidInput, match="shares must weigh some of within, similar"):
            list(subscriptions.mixed(source, 300, 9, shares=shares))


def test_expressions_join_all_words_with_and_or(source):
    made = whole(subscriptions.within(source, N, 3, expressions=True))
    plain = whole(subscriptions.within(source, N, 3))
    both = list(zip(made["keywords"].to_pylist(), plain["keywords"].to_pylist(), strict=True))
    for text, words in both:
        assert [word for word in words_of(text) if word not in ("and", "or")] == words
        subscription_from_json({"id": 1, "kind": "within", "region": [0, 0, 1, 1], "keywords": text})
    assert {"AND", "OR"} <= {part for text, _ in both for part in text.split()}


def test_the_seed_decides(source):
    for make in (subscriptions.within, subscriptions.similar, subscriptions.topk, subscriptions.nearest):
        once, again, other = (whole(make(source, 50, seed)) for seed in (1, 1, 2))
        assert once.equals(again)
        assert not once.equals(other)
        assert once.slice(0, 20).equals(whole(make(source, 20, 1)))


def test_impossible_requests_are_refused(source):
    with pytest.raises(InvalidInput, match="areas must be"):
        subscriptions.within(source, 5, 1, areas=(0.0, 0.1))
    with pytest.raises(InvalidInput, match="match must be 'all' or 'any', got 'some'"):
        subscriptions.nearest(source, 5, 1, match="some")
    with pytest.raises(InvalidInput, match="words must be"):
        next(subscriptions.topk(source, 5, 1, words=(0, 2)))


def test_words_of_a_message_are_drawn_evenly():
    table = pa.table({"lon": [0.0], "lat": [0.0], "text": ["a b c d e"]})
    made = whole(subscriptions.topk(Source.of(table), 20_000, 1, words=(2, 2)))
    counts = np.unique(pc.list_flatten(made["keywords"]).to_numpy(zero_copy_only=False), return_counts=True)[1]
    assert counts.min() > 7_700
    assert counts.max() < 8_300
