"""Words that are spelled once for many brokers: each row's distinct words, and where in them its words stand."""

from __future__ import annotations

import pyarrow as pa

from nearcast.columns.tokens import Spelled, spell
from nearcast.model.analyzer import Analyzer
from nearcast.text.analysis import Analysis

TEXTS = ["to be or not to be", None, "", "b a b", None, "a"]
LISTS = [None, ["b", "a", "b"], None, None, [], None]


def in_order(spelled: Spelled, row: int) -> list[str]:
    """The words of a row as its text or list has them."""
    words = spelled.words[row].as_py()
    return [words[place if place >= 0 else ~place] for place in spelled.order[row].as_py()]


def test_places_lead_from_the_words_of_a_text_to_its_distinct_words() -> None:
    spelled = spell(pa.array(TEXTS), pa.array(LISTS, pa.list_(pa.string())), Analysis(Analyzer()))
    assert spelled.words[0].as_py() == ["be", "not", "or", "to"]
    assert spelled.counts[0].as_py() == [2, 1, 1, 2]
    assert [in_order(spelled, row) for row in (0, 2, 3, 5)] == [TEXTS[0].split(), [], ["b", "a", "b"], ["a"]]  # type: ignore[union-attr]


def test_words_of_a_list_are_marked_where_words_are_stemmed() -> None:
    texts, lists = pa.array(["fires burning fires", None]), pa.array([None, ["fires", "alarm"]])
    spelled = spell(texts, lists, Analysis(Analyzer(stemmer="english")))
    assert in_order(spelled, 0) == ["fire", "burn", "fire"]
    assert in_order(spelled, 1) == ["fire", "alarm"]
    assert [place < 0 for place in spelled.order[1].as_py()] == [True, True]
    assert spelled.surfaces.to_pylist() == [["fires", "burning", "fires"], ["fires", "alarm"]]


def test_no_rows_have_no_words() -> None:
    spelled = spell(pa.array([], pa.string()), pa.array([], pa.list_(pa.string())), Analysis(Analyzer()))
    assert len(spelled.words) == len(spelled.order) == 0
