from __future__ import annotations

import pickle
import time
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.errors import InvalidInput
from nearcast.model import expression
from nearcast.model.expression import MAX_CLAUSES, MAX_NESTING, MAX_WORDS, MAX_WRITTEN, Clause, Operand, clauses, parse

WORDS = "abcdef"

# A tree is an operand (a string of one-letter words), ("NOT", tree), ("AND", left, right) or ("OR", left, right).
operands = st.one_of(st.sampled_from(WORDS), st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map("-".join))
trees = st.recursive(
    operands,
    lambda inner: st.one_of(
        st.tuples(st.just("NOT"), inner),
        st.tuples(st.just("AND"), inner, inner),
        st.tuples(st.just("OR"), inner, inner),
    ),
    max_leaves=10,
)
SETS = [{word for word, there in zip(WORDS, bits, strict=True) if there} for bits in product((0, 1), repeat=len(WORDS))]


def truth(tree, words):  # type: ignore[no-untyped-def]
    """Whether a message of these words satisfies the tree, by the meaning of the operators alone."""
    if isinstance(tree, str):
        return all(word in words for word in tree.split("-"))
    if tree[0] == "NOT":
        return not truth(tree[1], words)
    sides = (truth(tree[1], words), truth(tree[2], words))
    return all(sides) if tree[0] == "AND" else any(sides)


def written(tree, draw, binding=0):  # type: ignore[no-untyped-def]
    """The tree as text: parentheses where they are needed and now and then where they are not; AND or neither."""
    if isinstance(tree, str):
        text, own = draw(st.sampled_from([tree, tree.upper(), "#" + tree])), 4
    elif tree[0] == "NOT":
        text, own = "NOT " + written(tree[1], draw, 3), 3
    elif tree[0] == "AND":
        joint = draw(st.sampled_from([" AND ", " ", "\t\n"]))
        text, own = written(tree[1], draw, 2) + joint + written(tree[2], draw, 2), 2
    else:
        text, own = written(tree[1], draw, 1) + "  OR " + written(tree[2], draw, 1), 1
    if own < binding or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from(["(%s)", "( %s )"])) % text
    return text


def alternatives(tree, negated=False):  # type: ignore[no-untyped-def]
    """Every clause of the plain normal form as a set of (word, wanted): nothing dropped, nothing simplified."""
    if isinstance(tree, str):
        words = tree.split("-")
        return [{(word, False)} for word in words] if negated else [{(word, True) for word in words}]
    if tree[0] == "NOT":
        return alternatives(tree[1], not negated)
    left, right = alternatives(tree[1], negated), alternatives(tree[2], negated)
    return [a | b for a in left for b in right] if (tree[0] == "AND") != negated else left + right


def consistent(tree):  # type: ignore[no-untyped-def]
    """The plain normal form without clauses that contradict themselves."""
    return [clause for clause in alternatives(tree) if not any((word, not wanted) in clause for word, wanted in clause)]


def holds(clause: Clause, words: set[str]) -> bool:
    return words.issuperset(clause.positive) and words.isdisjoint(clause.negative)


def refusal(text: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        clauses(parse(text))
    assert (caught.value.field, caught.value.value) == ("keywords", text)
    return str(caught.value)


@given(trees, st.data())
def test_clauses_mean_what_the_tree_means(tree, data) -> None:  # type: ignore[no-untyped-def]
    text = written(tree, data.draw)
    left = consistent(tree)
    try:
        made = clauses(parse(text))
    except InvalidInput as error:
        refused = error.rule
    else:
        refused = ""
    if "asks for no word" in refused:
        assert any(not any(wanted for _, wanted in clause) for clause in left)
    elif "can never hold" in refused:
        assert left == []
    elif refused:
        assert "must expand to at most 256" in refused
        assert len(left) > MAX_CLAUSES
    if refused:
        return
    assert left
    assert all(any(wanted for _, wanted in clause) for clause in left)
    for words in SETS:
        assert any(holds(clause, words) for clause in made) == truth(tree, words), (text, words)


@given(trees, st.data())
def test_clauses_are_in_their_simplest_order(tree, data) -> None:  # type: ignore[no-untyped-def]
    try:
        made = clauses(parse(written(tree, data.draw)))
    except InvalidInput:
        return
    assert 1 <= len(made) <= MAX_CLAUSES
    assert list(made) == sorted(made, key=lambda clause: (clause.positive, clause.negative))
    conditions = [{(word, True) for word in c.positive} | {(word, False) for word in c.negative} for c in made]
    for i, clause in enumerate(made):
        assert clause.positive == tuple(sorted(set(clause.positive))) != ()
        assert clause.negative == tuple(sorted(set(clause.negative)))
        assert not set(clause.positive) & set(clause.negative)
        assert not any(conditions[j] <= conditions[i] for j in range(len(made)) if j != i)


@given(st.text(alphabet='ab ()-ANDORT\u3042\n"*'))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        made = clauses(parse(text))
    except InvalidInput as error:
        field = error.field
    else:
        field = "keywords" if made else "nothing"
    assert field == "keywords"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ipad", [("ipad", "")]),
        ("ipad ipad IPAD", [("ipad", "")]),
        ("ipad AND (discount OR sale) AND NOT used", [("discount ipad", "used"), ("ipad sale", "used")]),
        ("a OR b c", [("a", ""), ("b c", "")]),
        ("a b OR c AND d", [("a b", ""), ("c d", "")]),
        ("NOT a b", [("b", "a")]),
        ("b NOT NOT a", [("a b", "")]),
        ("a NOT (b OR c)", [("a", "b c")]),
        ("a AND NOT (b AND c)", [("a", "b"), ("a", "c")]),
        ("a AND NOT b-c", [("a", "b"), ("a", "c")]),
        ("and or not", [("and not or", "")]),
        ("AND, OR.", [("and or", "")]),
        ("New-York's #1 pizza", [("1 new pizza s york", "")]),
        ("a OR a b", [("a", "")]),
        ("a b OR a", [("a", "")]),
        ("a AND NOT a OR b", [("b", "")]),
        ("(a OR NOT a) b", [("a b", ""), ("b", "a")]),
        ("(a OR b) (a OR c)", [("a", ""), ("b c", "")]),
        ("((a))(b)", [("a b", "")]),
        ("café\u3000ＳＡＬＥ", [("café sale", "")]),  # noqa: RUF001
        ('"New York" pizza', [('"new york" pizza', "")]),
        ('a NOT "b  (c) AND"', [("a", '"b c and"')]),
        ('"a" "b!"', [("a b", "")]),
        ('x"a b"y', [('"a b" x y', "")]),
        ('"a b" OR "a b" c', [('"a b"', "")]),
        ('"a b" NOT "a b" OR d', [("d", "")]),
        ("fire* NOT fires*", [("fire*", "fires*")]),
        ("#Fire* (STRASSE* OR ﬁ*)", [("fi* fire*", ""), ("fire* strasse*", "")]),
        ("camp-fire*", [("camp fire*", "")]),
        ("x NOT camp-fire*", [("x", "camp"), ("x", "fire*")]),
        ("東京*", [("東京*", "")]),
        ("\u201ca b\u201d", [('"a b"', "")]),
    ],
)
def test_examples(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(" ".join(clause.positive), " ".join(clause.negative)) for clause in clauses(parse(text))] == expected


def test_parse_gives_postfix_order() -> None:
    parsed = parse("NOT b-c OR (a d)")
    assert parsed.steps == (Operand(("b", "c"), 4), "NOT", Operand(("a",), 12), Operand(("d",), 14), "AND", "OR")
    assert pickle.loads(pickle.dumps(parsed)) == parsed


@pytest.mark.parametrize(
    ("text", "position", "what"),
    [
        ("a AND", 6, 'needs a word after "AND"'),
        ("a AND  ", 6, 'needs a word after "AND"'),
        ("a OR OR b", 6, 'needs a word after "OR", found "OR"'),
        ("AND a", 1, 'needs a word at the start, found "AND"'),
        ("a NOT", 6, 'needs a word after "NOT"'),
        ("a NOT AND b", 7, 'needs a word after "NOT", found "AND"'),
        ("a ()", 4, 'needs a word after "(", found ")"'),
        ("(", 2, 'needs a word after "("'),
        (")", 1, 'needs a word at the start, found ")"'),
        ("a) b", 2, 'has no "(" before it'),
        ("b (a (c)", 3, 'has no ")" after it'),
        ("a ... b", 3, "holds no letter or digit"),
        ("NOT a", 5, 'only forbids: "NOT a" asks for no word that must be there'),
        ("a OR NOT (b OR c)", 11, 'only forbids: "NOT b NOT c" asks for no word that must be there'),
        ("x OR a OR NOT a", 15, 'only forbids: "NOT a" asks for no word that must be there'),
        ("a NOT a", 7, "can never hold: every alternative asks for a word that it forbids"),
        ('a "b c', 3, "has no quote after it"),
        ('a "', 3, "has no quote after it"),
        ('a "-" b', 3, "holds no letter or digit"),
        ('"a b*"', 5, "must not stand inside quotes: a phrase has whole words only"),
        ("a OR b*", 7, "needs at least 2 letters or digits before it"),
        ("fire-*", 6, "needs at least 2 letters or digits before it"),
        ("*fire", 1, "must be the last character of a word: it asks for all that start so"),
        ("fire**", 5, "must be the last character of a word: it asks for all that start so"),
        ('"a b"*', 6, "needs at least 2 letters or digits before it"),
        ("NOT fire*", 5, 'only forbids: "NOT fire*" asks for no word that must be there'),
        ('"a b" NOT "a b"', 11, "can never hold: every alternative asks for a word that it forbids"),
    ],
)
def test_errors_point_at_the_place(text: str, position: int, what: str) -> None:
    shown = text.rstrip()
    assert refusal(text) == (
        f"keywords is malformed at position {position}\n    {shown}\n    {' ' * (position - 1)}^ {what}, got {text!r}"
    )


def test_pictures_of_long_wide_and_odd_texts() -> None:
    lines = refusal("wort " * 40 + "OR OR " + "mot " * 40).split("\n")
    assert lines[0] == "keywords is malformed at position 204"
    assert lines[1].strip().startswith("…")
    assert lines[1].endswith("…")
    assert lines[1][lines[2].index("^") :].startswith("OR mot")
    lines = refusal("東京 OR\tOR e\u0301").split("\n")
    assert lines[1] == "    東京 OR OR e\u0301"
    assert lines[2].startswith("    " + " " * len("____ OR ") + "^ ")
    lines = refusal("e\u0301 OR\nOR a").split("\n")
    assert lines[2].startswith("    " + " " * len("e OR ") + "^ ")


@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_nothing_is_no_expression(text: str) -> None:
    assert refusal(text) == f"keywords must hold at least one word, got {text!r}"


def test_refuses_other_types_and_lone_surrogates() -> None:
    with pytest.raises(InvalidInput, match="keywords must be a string, got 5"):
        parse(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"keywords must be valid Unicode \(lone surrogate at position 3\), got "):
        parse("a \ud800")


def test_nesting_is_bounded() -> None:
    deepest = "(" * MAX_NESTING + "a" + ")" * MAX_NESTING
    assert clauses(parse(deepest)) == (Clause(("a",), ()),)
    assert clauses(parse(f"{deepest} {deepest} {'NOT ' * MAX_NESTING}b")) == (Clause(("a", "b"), ()),)
    assert f"^ is nested more than {MAX_NESTING} deep, got " in refusal(f"({deepest})")
    assert f"position {4 * MAX_NESTING + 1}\n" in refusal("NOT " * (MAX_NESTING + 1) + "a")
    assert f"is nested more than {MAX_NESTING} deep" in refusal("(" * 100_000 + "a" + ")" * 100_000)


def test_the_number_of_clauses_is_bounded() -> None:
    pairs = [f"(a{i} OR b{i})" for i in range(9)]
    assert len(clauses(parse(" ".join(pairs[:8])))) == 256
    too_many = "keywords must expand to at most 256 alternatives of ANDed words, got "
    assert refusal(" ".join(pairs)).startswith(too_many)
    assert refusal("x AND NOT (" + " OR ".join(f"a{i}-b{i}" for i in range(9)) + ")").startswith(too_many)
    many = [f"w{i}" for i in range(257)]
    assert len(clauses(parse(" OR ".join(many[:256])))) == 256
    assert refusal(" OR ".join(many)).startswith(too_many)
    assert refusal("x NOT " + "-".join(many)).startswith(too_many)
    assert refusal(f"({' OR '.join(many[:256])}) ({' OR '.join(many[1:257])})").startswith(too_many)


def test_what_simplifies_does_not_count() -> None:
    assert len(clauses(parse(" ".join(["(a OR b OR c)"] * 50)))) == 3
    assert len(clauses(parse(" OR ".join(["a", "b"] * 1000)))) == 2
    assert clauses(parse(" ".join(f"w{i}" for i in range(5000))))[0].positive[-1] == "w999"


def test_hard_expressions_end_soon() -> None:
    start = time.perf_counter()
    hard = " ".join("(" + " OR ".join(f"w{(7 * i + j) % 70}" for j in range(60)) + ")" for i in range(20))
    assert "must expand to at most 256" in refusal(hard) or clauses(parse(hard))
    assert len(clauses(parse("x " + " ".join(f"NOT w{i}" for i in range(2000))))[0].negative) == 2000
    assert time.perf_counter() - start < 10


class Written:
    """Counts the words of all forms that are compared while an expression is multiplied out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.n_words = 0
        self._before = expression.minimal
        monkeypatch.setattr(expression, "minimal", self)

    def __call__(self, forms):  # type: ignore[no-untyped-def]
        forms = list(forms)
        self.n_words += sum(map(len, forms))
        return self._before(forms)


def alternation(letter: str, n: int) -> str:
    return "(" + " OR ".join(f"{letter}{i}" for i in range(n)) + ")"


def test_the_number_of_words_is_bounded() -> None:
    """Once a few kilobytes of text took minutes and became hundreds of megabytes."""
    too_wordy = f"keywords must expand to at most {MAX_WORDS} words in all its alternatives together, got "
    asked = [f"a{i}" for i in range(256)]
    made = clauses(parse(f"{alternation('b', 256)} {' '.join(asked[:255])}"))
    assert sum(len(clause.positive) for clause in made) == MAX_WORDS
    assert refusal(f"{alternation('b', 256)} {' '.join(asked)}").startswith(too_wordy)
    forbidden = " ".join("NOT " + word for word in asked)
    assert refusal(f"{alternation('b', 256)} {forbidden}").startswith(too_wordy)
    assert len(clauses(parse(f"{alternation('b', 200)} NOT {alternation('c', 200)}"))) == 200
    many = " ".join(f"w{i}" for i in range(MAX_WORDS))
    assert len(clauses(parse(many))[0].positive) == MAX_WORDS
    assert refusal(many + " w0").startswith(too_wordy)
    assert refusal(f"({many}) OR w0").startswith(too_wordy)


@pytest.mark.parametrize(
    "text",
    [
        f"{alternation('b', 256)} {' '.join(f'a{i}' for i in range(20_000))}",
        " ".join(f"(a{i % 8} OR b{i % 8})" for i in range(2000)),
        " ".join([alternation("b", 64)] * 100),
        "x " + " ".join(f"({alternation('b', 16)} OR NOT {alternation('c', 16)})" for _ in range(400)),
    ],
    ids=["thousands of words", "pairs again", "the same again", "both signs"],
)
def test_what_is_long_in_the_making_is_refused_before_it_is_made(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = Written(monkeypatch)
    assert refusal(text).startswith(f"keywords must expand to at most {MAX_WRITTEN} words in all its parts together, ")
    assert written.n_words <= MAX_WRITTEN


@pytest.mark.parametrize(
    "form",
    [
        lambda n: f"(x OR y) {' '.join(f'w{i}' for i in range(n))}",
        lambda n: f"x {' '.join(f'NOT w{i}' for i in range(n))}",
        lambda n: f"x NOT {alternation('w', n)}",
        lambda n: " OR ".join(f"w{i % 250}" for i in range(n)),
        lambda n: "x OR " + " OR ".join(f"w{i} NOT w{i}" for i in range(n)),
        lambda n: "x " + " ".join(f"(w{i} NOT w{i} OR y)" for i in range(n)),
        lambda n: "x " + "NOT NOT y " * n,
    ],
    ids=["asked", "forbidden", "forbidden together", "repeated", "contradictory", "contradictory factors", "double"],
)
def test_a_long_chain_is_joined_once(form, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    """The work is a small multiple of the words in the text, whether or not the chain simplifies."""
    written = Written(monkeypatch)
    assert clauses(parse(form(5000)))
    assert written.n_words <= 5 * 5000


def test_a_clause_that_only_forbids_is_shown_in_part() -> None:
    text = " ".join(f"NOT w{i:03}" for i in range(300))
    assert 'only forbids: "NOT w000 NOT w001 ' in refusal(text)
    assert 'NOT w019 …" asks for no word' in refusal(text)
