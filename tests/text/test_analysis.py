"""Words in bulk go through an analyzer as they do one by one."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nearcast as nc
from nearcast.model.words import set_apart
from nearcast.text import analysis
from nearcast.text.analysis import Analysis
from nearcast.text.words import Words, from_lists, tokenise

ALL = nc.Analyzer("english", "english", "fold", "bigrams")
TEXTS = st.lists(st.text(alphabet="aeé ñЁ東京한the\x01fires", max_size=20) | st.none(), max_size=6)


def rows_of(words: Words) -> list[list[str]]:
    text, starts = words.data.tobytes(), words.word_start.tolist()
    found = [text[a:b].decode() for a, b in pairwise(starts)]
    return [found[a:b] for a, b in zip(words.row_start[:-1], words.row_start[1:], strict=True)]


@given(st.lists(TEXTS, max_size=3), st.sampled_from([ALL, nc.Analyzer(), nc.Analyzer(cjk="bigrams")]))
def test_as_one_by_one(batches: list[list[str | None]], analyzer: nc.Analyzer) -> None:
    given_ = Analysis(analyzer)
    for texts in batches:
        words, surfaces = given_.texts(tokenise(pa.array(texts, pa.string())))
        assert rows_of(words) == [analyzer.words(text or "") for text in texts]
        assert rows_of(surfaces) == [[form.surface for form in analyzer.forms(text or "")] for text in texts]
        items = [[text] for text in texts if text]
        words, surfaces = given_.items(from_lists(pa.array(items, pa.list_(pa.string()))))
        assert rows_of(words) == [[set_apart(word) for word in analyzer.items(row)] for row in items]


def test_the_table_starts_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "MOST_KEPT", 2)
    given_ = Analysis(ALL)
    for text in ("burning fires", "smoking the houses", "fires", "burned fires"):
        assert rows_of(given_.texts(tokenise(pa.array([text])))[0]) == [ALL.words(text)]


def test_weights() -> None:
    weights = nc.Weights.fit(["the fires", "a fire", ["Fires", "old fires"]], ALL)
    assert weights.weight("FIRES") == weights.weight("fire") == nc.Weights.fit(["x", "x", "x"]).weight("x")
    assert weights.weight("old fires") > weights.weight("fire")
    with pytest.raises(nc.InvalidInput, match="weights must be fitted with the broker's analyzer"):
        nc.Broker(nc.Space((0, 0, 1, 1)), weights=weights)
    broker = nc.Broker(nc.Space((0, 0, 1, 1)), weights=weights, analyzer=ALL)
    with pytest.raises(nc.InvalidInput, match="weights must be fitted with the broker's analyzer"):
        broker.reweigh(nc.Weights.fit(["fire"]))
    broker.reweigh(nc.Weights())
