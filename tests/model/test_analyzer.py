"""What becomes of words: stop words, stems, accents and pairs of signs."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from definitions_of_text import Rule
from hypothesis import given
from hypothesis import strategies as st

import nearcast as nc
from nearcast.model.analyzer import PLAIN_RULE, as_analyzer
from nearcast.model.expression import clauses, parse
from nearcast.model.words import words_in, words_of

ALL = nc.Analyzer("english", "english", "fold", "bigrams")
BOX = nc.Box(0, 0, 8, 8)


@pytest.mark.parametrize(
    ("analyzer", "text", "words"),
    [
        (nc.Analyzer(), "The Cafés of 東京都", "the cafés of 東京都"),
        (nc.Analyzer(stop_words="english"), "The fires of HIS town", "fires town"),
        (nc.Analyzer(stop_words="german"), "für die Feuer", "feuer"),
        (nc.Analyzer(stop_words="german", accents="fold"), "Fur die Feuer für uns", "feuer"),
        (nc.Analyzer(stemmer="english"), "burning fires burned", "burn fire burn"),
        (nc.Analyzer(stemmer="german"), "Häuser", "haus"),
        (nc.Analyzer(accents="fold"), "Ångström naïve Ёлка Άλφα が ø", "angstrom naive елка αλφα が ø"),
        (
            nc.Analyzer(cjk="bigrams"),
            "東京都庁 a東京b 京 カラオケ 한국어",
            "東京 京都 都庁 a 東京 b 京 カラ ラオ オケ 한국 국어",
        ),
        (ALL, "The Cafés of 東京都!", "cafe 東京 京都"),
    ],
)
def test_examples(analyzer: nc.Analyzer, text: str, words: str) -> None:
    assert analyzer.words(text) == words.split()


def test_items_of_lists_are_stemmed_if_they_are_one_word_and_never_cut() -> None:
    assert ALL.items(["Fires", "New Fires", "THE", "Cafés", "東京都", "", "c++", "\u0301"]) == [
        "fire", "new fires", "the", "cafe", "東京都", "c++", "\u0301",
    ]  # fmt: skip


@given(st.text(), st.lists(st.text(max_size=5), max_size=3))
def test_the_plain_rule_changes_nothing(text: str, items: list[str]) -> None:
    assert PLAIN_RULE.words(text) == words_of(text)
    assert PLAIN_RULE.items(items) == words_in(items)


@given(
    st.text(alphabet="aeé\u0301ñ ЁйがバｶﾞΆ東京한 the fires-7"),
    st.sampled_from([ALL, nc.Analyzer(accents="fold", cjk="bigrams")]),
)
def test_the_definitions_agree(text: str, analyzer: nc.Analyzer) -> None:
    assert list(analyzer.forms(text)) == list(Rule(analyzer).forms(text))
    assert [analyzer.item(item) for item in [text] if item] == Rule(analyzer).forms([text])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("burning fires", [("burn fire", "")]),
        ('"burning the fires"', [('"burn fire"', "")]),
        ('"the fires"', [("fire", "")]),
        ("fires* NOT burning*", [("fires*", "burning*")]),
        ("the*", [("the*", "")]),
        ("Cafés*", [("cafes*", "")]),
        ("the-burning-fires*", [("burn fires*", "")]),
        ("東京都*", [("京都* 東京", "")]),
    ],
)
def test_expressions(text: str, expected: list[tuple[str, str]]) -> None:
    made = clauses(parse(text, ALL))
    assert [(" ".join(clause.positive), " ".join(clause.negative)) for clause in made] == expected


def test_what_is_left_out_entirely_is_refused() -> None:
    broker = nc.Broker(nc.Space((0, 0, 8, 8), "euclidean"), window=nc.Window(count=9), analyzer=ALL)
    with pytest.raises(nc.InvalidInput, match=r"position 10\n.*\n.* holds only stop words, got 'fire AND the'"):
        broker.subscribe(1, nc.Within(BOX, "fire AND the"))
    with pytest.raises(
        nc.InvalidInput, match="keywords must hold at least one word that is no stop word, got 'of the'"
    ):
        broker.subscribe(1, nc.TopK(1, 1, "of the"))
    rejects = broker.subscribe_many([(1, nc.Within(BOX, "the")), (2, nc.Nearest(1, 1, ["the"]))]).rejects
    assert [(reject.row, reject.field) for reject in rejects] == [(0, "keywords")]


@pytest.mark.parametrize(
    ("field", "value"),
    [("stop_words", "klingon"), ("stemmer", "klingon"), ("stemmer", 5), ("accents", "drop"), ("cjk", None)],
)
def test_refuses_what_there_is_not(field: str, value: Any) -> None:
    with pytest.raises(nc.InvalidInput, match=f"^{field} must be one of ") as caught:
        nc.Analyzer(**{field: value})
    assert (caught.value.field, caught.value.value) == (field, value)


def test_threads_do_not_mix_up_stems() -> None:
    words = [f"{letter * n}ings" for letter in "abcdefg" for n in range(1, 60)]
    rule = nc.Analyzer(stemmer="english")
    right = [rule.words(word) for word in words]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            said = list(pool.map(lambda _: [rule.words(word) for word in words], range(20)))
    finally:
        sys.setswitchinterval(interval)
    assert all(each == right for each in said)


def test_as_analyzer() -> None:
    assert as_analyzer(None) == nc.Analyzer()
    assert as_analyzer(ALL) == ALL
    with pytest.raises(nc.InvalidInput, match="analyzer must be an Analyzer or None, got 'english'"):
        as_analyzer("english")
