from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from nearcast.errors import InvalidInput
from nearcast.model.words import words_of
from nearcast.workload import zipf
from nearcast.workload.schema import BLOCK, generator


def test_words_are_distinct_and_survive_the_text_rules():
    words = zipf.vocabulary(20_000)
    assert pc.count_distinct(words).as_py() == 20_000
    assert words_of(" ".join(words[:500].to_pylist())) == words[:500].to_pylist()
    assert zipf.vocabulary(7).to_pylist() == words[:7].to_pylist()


def test_a_vocabulary_past_a_million_is_still_distinct():
    words = zipf.vocabulary(1_000_001)
    assert pc.count_distinct(words).as_py() == 1_000_001


@pytest.mark.parametrize("n", [0, zipf.MAX_WORDS + 1])
def test_an_impossible_vocabulary_is_refused(n):
    with pytest.raises(InvalidInput, match="vocabulary must be from 1 to"):
        zipf.vocabulary(n)


def test_frequencies_follow_the_law():
    counts = np.bincount(zipf.Zipf(1_000).draw(generator(1), 400_000), minlength=1_000)
    harmonic = (1 / np.arange(1, 1_001)).sum()
    for rank in (1, 2, 5, 20, 100):
        assert counts[rank - 1] / 400_000 == pytest.approx(1 / rank / harmonic, rel=0.1)
    flat = np.bincount(zipf.Zipf(10, exponent=0.0).draw(generator(1), 100_000), minlength=10)
    assert flat.min() > 9_500


def test_distinct_draws_never_repeat_within_a_row():
    counts = generator(3).integers(0, 11, 5_000)
    numbers = zipf.Zipf(25).draw_distinct(generator(2), counts)
    rows = np.repeat(np.arange(counts.size), counts)
    assert numbers.size == counts.sum()
    assert len(set(zip(rows.tolist(), numbers.tolist(), strict=True))) == numbers.size


def test_rows_longer_than_half_the_vocabulary_are_refused():
    with pytest.raises(InvalidInput, match="at least twice the words of a row"):
        zipf.Zipf(10).draw_distinct(generator(1), np.array([6]))
    with pytest.raises(InvalidInput, match="vocabulary must be >= 1, got 0"):
        zipf.Zipf(0)


def test_places_gather_around_centres_inside_the_bounds():
    bounds = (-10.0, 5.0, 30.0, 6.0)
    clusters = zipf.Clusters.scattered(5, 1, bounds, spread=0.01, uniform=0.2)
    x, y = clusters.draw(generator(4), 20_000)
    assert x.min() >= -10
    assert x.max() <= 30
    assert y.min() >= 5
    assert y.max() <= 6
    apart = np.hypot((x[:, None] - clusters.centres[:, 0]) / 40, y[:, None] - clusters.centres[:, 1])
    near = (apart.min(axis=1) < 0.04).mean()
    assert 0.75 < near < 0.9
    with pytest.raises(InvalidInput, match="clusters must be >= 1"):
        zipf.Clusters.scattered(0, 1)


def test_messages_are_the_same_for_a_seed_and_however_many_are_asked_for():
    few = pa.concat_tables(zipf.messages(100, 5))
    many = pa.concat_tables(zipf.messages(BLOCK + 100, 5))
    assert few.equals(many.slice(0, 100).combine_chunks())
    assert not few.equals(pa.concat_tables(zipf.messages(100, 6)))
    assert many["id"].to_pylist() == list(range(1, BLOCK + 101))
    assert pc.all(pc.greater_equal(many["ts"][1:], many["ts"][:-1])).as_py()


def test_messages_have_the_words_that_were_asked_for():
    made = pa.concat_tables(zipf.messages(2_000, 1, words=(2, 3), n_vocabulary=50, form="keywords", rate=10.0))
    lengths = pc.list_value_length(made["keywords"])
    assert pc.min_max(lengths).as_py() == {"min": 2, "max": 3}
    assert all(len(set(words)) == len(words) for words in made["keywords"].to_pylist())
    seconds = (made["ts"][-1].as_py() - made["ts"][0].as_py()) / 1_000
    assert seconds == pytest.approx(200, rel=0.1)
    texts = next(zipf.messages(5, 1, words=(2, 3)))["text"].to_pylist()
    assert all(2 <= len(text.split()) <= 3 for text in texts)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"words": (0, 3)}, "words must be"),
        ({"words": (3, 2)}, "words must be"),
        ({"form": "json"}, "form must be 'text' or 'keywords', got 'json'"),
        ({"rate": 0.0}, "rate must be > 0"),
    ],
)
def test_impossible_messages_are_refused(change, reason):
    with pytest.raises(InvalidInput, match=reason):
        next(zipf.messages(5, 1, **change))
