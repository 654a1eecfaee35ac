"""Small examples whose answers were worked out by hand, so that the judge itself is judged."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from compare import Follower, about
from definitions import (
    Definitions,
    Ground,
    Lifetime,
    Refused,
    Weights,
    cosine,
    expression,
    text_similarity,
    words_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from places import euclidean, haversine_m, in_polygon, in_region
from strategies import brokers, expressions, streams, texts

from nearcast.errors import InvalidInput
from nearcast.model.message import Message
from nearcast.model.query import Nearest, Similar, TopK, Within
from nearcast.model.region import Box, Circle, Polygon
from nearcast.model.update import Update

PLANE = Ground((0, 0, 3, 4), "euclidean")  # the corners are 5 apart
GLOBE = Ground((-180, -90, 180, 90), "haversine")
QUARTER = math.pi / 2 * 6_371_008.8  # metres from the equator to a pole


def signs(updates: list[Update]) -> list[tuple[str, str | int, str | int]]:
    return [(u.sign, u.subscription, u.message) for u in updates]


def at(id: str | int, lon: float, lat: float, text: str = "fire", **times: int) -> Message:
    return Message(id, lon, lat, text, **times)  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------------------------------------- text


def test_words() -> None:
    assert words_of("New #Ramen place, RAMEN_bar!") == ["new", "ramen", "place", "ramen", "bar"]
    assert words_of("Straße \uff26ire ½") == ["strasse", "fire", "1", "2"]
    assert words_of("e\u0301tude") == ["étude"]
    assert words_of("…") == []


@settings(deadline=None)
@given(texts())
def test_words_are_those_of_the_model(text: str) -> None:
    assert tuple(words_of(text)) == Message(0, 0.0, 0.0, text).words


def test_weights() -> None:
    weights = Weights(["fire smoke fire", "smoke", ["Road"], ""])
    assert weights("smoke") == math.log(1 + 4 / 2)
    assert weights("fire") == math.log(1 + 4 / 1)
    assert weights("unseen") == math.log(1 + 4)
    assert Weights(())("any") == 1.0


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("ipad AND (discount OR sale) AND NOT used", "ipad sale", "ipad sale used"),
        ("a OR b AND c", "a", "b"),
        ("a b OR c", "c", "a"),
        ("NOT a b", "b", "a b"),
        ("a AND NOT NOT b", "a b", "a"),
        ("and or", "and or", "and"),
        ("a AND NOT b-c", "a b", "a b c"),
        ("(a AND NOT a) OR b", "b", "a"),
    ],
)
def test_expressions(text: str, yes: str, no: str) -> None:
    holds = expression(text)
    assert holds(yes.split())
    assert not holds(no.split())


@pytest.mark.parametrize(
    "text",
    ["", "NOT a", "a OR NOT b", "a AND NOT a", "a AND", "OR a", "(a", "a)", "()", "a AND ...", "a NOT", "a OR NOT a"],
)
def test_malformed_expressions(text: str) -> None:
    with pytest.raises(Refused):
        expression(text)
    with pytest.raises(InvalidInput):
        Within(Box(0, 0, 1, 1), text)


@settings(deadline=None)
@given(expressions())
def test_the_model_refuses_the_same_expressions(text: str) -> None:
    try:
        expression(text)
    except Refused:
        with pytest.raises(InvalidInput):
            Within(Box(0, 0, 1, 1), text)
    else:
        Within(Box(0, 0, 1, 1), text)


class Fixed(Weights):
    """Weights that were given, not counted."""

    def __init__(self, **given: float) -> None:
        super().__init__(())
        self.given = given

    def __call__(self, word: str) -> float:
        return self.given[word]


@pytest.mark.parametrize(
    ("measure", "expected"),
    [("weighted", 1 / 4), ("overlap", 1 / 2), ("jaccard", 1 / 9), ("dice", 2 / 5), ("cosine", 1 / math.sqrt(6))],
)
def test_measures(measure: str, expected: float) -> None:
    weights = Fixed(a=1.0, b=3.0, c=2.0, d=3.0)
    assert text_similarity(measure, {"a", "b"}, {"a", "c", "d"}, weights) == about(expected)
    assert text_similarity(measure, {"a", "b"}, set(), weights) == 0


def test_cosine_counts_repeats() -> None:
    # (2, 1) and (1, 0, 2) over a, b, c: 2 / (√5 √5)
    assert cosine(Counter("aab"), Counter("acc"), Weights(())) == about(2 / 5)


# --------------------------------------------------------------------------------------------------------------- space


def test_distances() -> None:
    assert euclidean(1, 1, 4, 5).value == 5
    assert haversine_m(0, 0, 0, 90).value == about(QUARTER)
    assert haversine_m(10, 90, -70, 90).low == 0 < haversine_m(10, 90, -70, 90).high < 1e-6
    assert haversine_m(179, 0, -179, 0).value == about(QUARTER * 2 / 90)
    assert haversine_m(179, 0, 181, 0).value == about(QUARTER * 2 / 90)
    assert haversine_m(45, 45, -135, -45).low <= 2 * QUARTER <= haversine_m(45, 45, -135, -45).high


def test_ssim() -> None:
    assert PLANE.ssim(euclidean(0, 0, 0, 2.5)).value == 0.5
    assert PLANE.ssim(euclidean(0, 0, 9, 9)).value == 0
    assert Ground((0, 0, 1, 1), "euclidean", 10.0).ssim(euclidean(0, 0, 3, 4)).value == 0.5


def test_polygon_borders() -> None:
    square = Polygon([(0, 0), (4, 0), (4, 4), (0, 4)], holes=[[(1, 1), (3, 1), (3, 3), (1, 3)]])
    for lon, lat, inside in [
        (0, 0, True), (2, 0, True), (4, 3, True), (0.5, 2, True), (1, 2, True), (3, 3, True),
        (2, 2, False), (4.5, 2, False), (-1, 0, False), (5, 4, False),
    ]:  # fmt: skip
        assert in_polygon(square, lon, lat) == inside, (lon, lat)
    crossing = Polygon([(0, 0), (4, 4), (4, 0), (0, 4)])
    assert [in_polygon(crossing, *place) for place in [(2, 2), (1, 2), (3, 2), (2, 1), (2, 3)]] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_regions_are_closed() -> None:
    assert in_region(PLANE, Box(0, 0, 1, 1), 1, 0) == (True, True)
    assert in_region(PLANE, Circle(0, 0, 5), 3, 4) == (True, True)
    assert in_region(PLANE, Circle(0, 0, 5), 3, 4.001) == (False, True)
    assert in_region(PLANE, Circle(1, 1, 0), 1, 1) == (True, True)
    assert in_region(GLOBE, Box(170, -10, -170, 10), 175, 0) == (True, True)
    assert in_region(GLOBE, Box(170, -10, -170, 10), 0, 0) == (False, True)


# -------------------------------------------------------------------------------------------------------------- events


def test_within_notifies_and_forgets_silently() -> None:
    judge = Definitions(PLANE, Lifetime(count=2))
    judge.subscribe("s", Within(Box(0, 0, 1, 1), "fire OR smoke"))
    assert judge.publish(at("a", 0, 0, ts=5)) == [Update("s", "a", "+", None, 5)]
    assert judge.publish(at("b", 2, 0)) == []
    assert judge.publish(at("c", 1, 1, "smoke")) == [Update("s", "c", "+", None, 5)]
    assert judge.results("s") == [("c", None)]
    assert signs(judge.move("s", region=Box(2, 0, 2, 0))) == [("-", "s", "c"), ("+", "s", "b")]


def test_similar_reaches_its_threshold() -> None:
    judge = Definitions(PLANE, Lifetime())
    judge.subscribe("s", Similar(0, 0, "fire smoke", delta=0.5, tau=0.5))
    assert [u.score for u in judge.publish(at("a", 0, 2.5))] == [0.5]  # half the words, half the way
    assert judge.publish(at("b", 0, 3)) == []
    assert [u.score for u in judge.publish(at("c", 0, 0, "road"))] == [0.5]  # the place alone suffices
    assert [u.score for u in judge.publish(at("d", 0, 0, ""))] == [0.5]
    assert judge.results("s") == [("d", 0.5), ("c", 0.5), ("a", 0.5)]


def test_topk_refills_when_a_message_expires() -> None:
    judge = Definitions(PLANE, Lifetime(age=1))
    judge.subscribe("s", TopK(0, 0, "fire", k=1, alpha=1))
    assert judge.publish(at("far", 0, 2.5, ts=0)) == [Update("s", "far", "+", 0.5, 0)]
    assert judge.publish(at("near", 0, 0, ts=0, expires=500)) == [
        Update("s", "far", "-", 0.5, 0),
        Update("s", "near", "+", 1.0, 0),
    ]
    assert judge.advance(499) == []
    assert judge.advance(500) == [Update("s", "near", "-", 1.0, 500), Update("s", "far", "+", 0.5, 500)]
    assert judge.advance(999) == []
    assert judge.advance(1000) == [Update("s", "far", "-", 0.5, 1000)]


def test_topk_needs_a_shared_word_and_counts_repeats() -> None:
    judge = Definitions(PLANE, Lifetime())
    judge.subscribe("s", TopK(0, 0, "fire fire smoke", k=5, alpha=0))
    judge.publish(at(1, 0, 0, "road"))
    judge.publish(at(2, 9, 9, "smoke"))
    judge.publish(at(3, 0, 0, "fire smoke fire"))
    assert judge.results("s") == [(3, about(1.0)), (2, about(1 / math.sqrt(5)))]


def test_nearest_newer_first_among_equals() -> None:
    judge = Definitions(PLANE, Lifetime(count=3))
    judge.subscribe("all", Nearest(0, 0, "fire smoke", k=2))
    judge.subscribe("any", Nearest(0, 0, "fire smoke", k=2, match="any"))
    judge.publish(at("a", 1, 0))
    judge.publish(at("b", 0, 1))
    assert judge.results("any") == [("b", 1.0), ("a", 1.0)]
    assert signs(judge.publish(at("c", -1, 0, "smoke fire"))) == [
        ("+", "all", "c"), ("-", "any", "a"), ("+", "any", "c"),
    ]  # fmt: skip
    assert judge.results("all") == [("c", 1.0)]


def test_an_expiring_id_may_be_used_again_in_the_same_event() -> None:
    judge = Definitions(PLANE, Lifetime(age=1))
    judge.subscribe("s", Nearest(0, 0, "fire", k=1))
    judge.subscribe("w", Within(Box(0, 0, 1, 1), "fire"))
    judge.publish(at("a", 1, 0, ts=0))
    with pytest.raises(Refused):
        judge.publish(at("a", 0, 0, ts=999))
    assert judge.clock == 0
    assert judge.publish(at("a", 0, 0, ts=1000)) == [
        Update("s", "a", "-", 1.0, 1000), Update("s", "a", "+", 0.0, 1000), Update("w", "a", "+", None, 1000),
    ]  # fmt: skip


def test_a_full_window_still_holds_the_id_of_its_oldest() -> None:
    judge = Definitions(PLANE, Lifetime(count=1))
    judge.publish(at("a", 0, 0, ts=0))
    with pytest.raises(Refused):
        judge.publish(at("a", 0, 0, ts=1))
    judge.publish(at("b", 0, 0, ts=1))
    judge.publish(at("a", 0, 0, ts=2))
    assert [arrival.message.id for arrival in judge.live.values()] == ["a"]


def test_late_messages_move_the_clock_only() -> None:
    judge = Definitions(PLANE, Lifetime(age=1, max_ahead=10))
    judge.subscribe("s", Within(Box(0, 0, 1, 1), "fire"))
    judge.publish(at("a", 0, 0, ts=0))
    assert judge.publish(at("b", 0, 0, ts=1500, expires=1500)) == []
    assert (judge.clock, judge.last, judge.n_late, judge.results("s")) == (1500, 1, 1, [])
    assert judge.publish(at("c", 0, 0, ts=500)) == []
    assert judge.n_late == 2
    with pytest.raises(Refused):
        judge.publish(at("d", 0, 0, ts=11501))
    assert signs(judge.publish(at("d", 0, 0, ts=11500))) == [("+", "s", "d")]


def test_a_subscription_ends_before_the_matching() -> None:
    judge = Definitions(PLANE, Lifetime())
    judge.subscribe("s", Within(Box(0, 0, 1, 1), "fire"), expires=10)
    assert signs(judge.publish(at("a", 0, 0, ts=9))) == [("+", "s", "a")]
    assert judge.publish(at("b", 0, 0, ts=10)) == []
    assert judge.subscribe("s", Within(Box(0, 0, 1, 1), "fire"), expires=10) == []
    with pytest.raises(Refused):
        judge.results("s")


def test_backfill() -> None:
    judge = Definitions(PLANE, Lifetime())
    judge.publish(at("a", 0, 1, ts=3))
    judge.publish(at("b", 0, 2))
    assert judge.subscribe("old", Nearest(0, 0, "fire")) == [
        Update("old", "a", "+", 1.0, 3),
        Update("old", "b", "+", 2.0, 3),
    ]
    assert judge.subscribe("new", Nearest(0, 0, "fire", backfill=False)) == []
    assert signs(judge.publish(at("c", 0, 3))) == [("+", "old", "c"), ("+", "new", "c")]
    assert judge.move("new", lon=0, lat=2) == []
    assert judge.results("new") == [("c", 1.0)]


def test_without_a_window() -> None:
    judge = Definitions(PLANE, None)
    judge.subscribe("w", Within(Box(0, 0, 1, 1), "fire"))
    judge.subscribe("n", Nearest(0, 0, "fire", k=1))
    assert signs(judge.publish(at("a", 0, 1, ts=0))) == [("+", "w", "a"), ("+", "n", "a")]
    assert signs(judge.publish(at("a", 0, 0.5, ts=0))) == [("+", "w", "a"), ("-", "n", "a"), ("+", "n", "a")]
    assert judge.publish(at("b", 0, 0, ts=7, expires=7)) == []
    assert judge.advance(10**9) == []
    assert judge.results("w") == []
    assert judge.results("n") == [("a", 0.5)]
    assert judge.move("w", region=Box(0, 0, 9, 9)) == []
    with pytest.raises(Refused, match="nothing refills"):
        judge.move("n", lon=0, lat=0)
    with pytest.raises(Refused, match="TopK without a window"):
        judge.subscribe("t", TopK(0, 0, "fire"))
    with pytest.raises(Refused, match="the id is taken"):
        judge.subscribe("n", Nearest(0, 0, "fire"))
    with pytest.raises(Refused, match="moves to a region"):
        judge.move("w", lon=0, lat=0)
    with pytest.raises(Refused, match="no such subscription"):
        judge.unsubscribe("x")


def test_reweigh() -> None:
    judge = Definitions(PLANE, Lifetime())
    judge.subscribe("s", Similar(0, 0, "fire smoke", delta=1, tau=0.6))
    judge.subscribe("t", TopK(0, 0, "fire smoke", k=1, alpha=0))
    judge.publish(at("a", 0, 0, "fire"))
    judge.publish(at("b", 0, 0, "smoke"))
    assert judge.results("s") == []
    # N = 7: fire in 7 texts weighs ln 2, smoke in 1 weighs ln 8 = 3 ln 2
    updates = judge.reweigh(["fire smoke", *["fire"] * 6])
    assert [(u.subscription, u.sign, u.message, u.score) for u in updates] == [("s", "+", "b", about(3 / 4))]
    assert judge.results("t") == [("b", about(3 / math.sqrt(10)))]
    updates = judge.reweigh(["fire smoke", *["smoke"] * 6])
    assert [(u.subscription, u.sign, u.message, u.score) for u in updates] == [
        ("s", "-", "b", about(3 / 4)), ("s", "+", "a", about(3 / 4)),
        ("t", "-", "b", about(3 / math.sqrt(10))), ("t", "+", "a", about(3 / math.sqrt(10))),
    ]  # fmt: skip


@settings(deadline=None)
@given(st.data())
def test_the_judge_allows_its_own_updates(data: st.DataObject) -> None:
    setting = data.draw(brokers())
    judge = setting.judge()
    follower = Follower(judge)
    for event in data.draw(streams(setting)):
        try:
            updates = event.happen_to(judge)
        except Refused:
            continue
        follower.follow(updates)
        follower.check_all(judge)


@pytest.mark.parametrize(
    "told",
    [
        [],  # missing
        [Update("s", "c", "+", 0.0, 0)],  # a member more than k
        [Update("s", "c", "+", 0.0, 0), Update("s", "a", "-", 1.0, 0)],  # + before -
        [Update("s", "b", "-", 1.0, 0), Update("s", "c", "+", 0.0, 0)],  # of equals the newer left
        [Update("s", "a", "-", 1.0, 0), Update("s", "c", "+", 0.1, 0)],  # another score
        [Update("s", "a", "-", 1.0, 1), Update("s", "c", "+", 0.0, 1)],  # another clock
        [Update("s", "a", "-", 1.0, 0), Update("s", "c", "+", 0.0, 0), Update("s", "c", "+", 0.0, 0)],  # twice
        [Update("s", "a", "-", 1.0, 0), Update("s", "x", "+", 0.0, 0)],  # another message
        [Update("x", "a", "-", 1.0, 0), Update("x", "c", "+", 0.0, 0)],  # another subscriber
        [Update("s", u, "-", 1.0, 0) for u in "ba"]
        + [Update("s", "c", "+", 0.0, 0), Update("s", "b", "+", 1.0, 0)],  # not the net change
    ],
)
def test_a_follower_notices(told: list[Update]) -> None:
    judge = Definitions(PLANE, Lifetime())
    follower = Follower(judge)
    follower.follow(judge.subscribe("s", Nearest(0, 0, "fire", k=2)))
    follower.follow(judge.publish(at("a", 1, 0)))
    follower.follow(judge.publish(at("b", 0, 1)))
    assert judge.publish(at("c", 0, 0)) == [Update("s", "a", "-", 1.0, 0), Update("s", "c", "+", 0.0, 0)]
    with pytest.raises(AssertionError):
        follower.follow(told)


def test_a_follower_lets_near_ties_fall_either_way() -> None:
    judge = Definitions(PLANE, Lifetime())
    follower = Follower(judge)
    follower.follow(judge.subscribe("s", Nearest(0, 0, "fire", k=1)))
    follower.follow(judge.publish(at("a", 1, 0)))
    assert judge.publish(at("b", 0, 1 - 1e-15)) != []
    follower.follow([])  # the broker found b no nearer
    follower.check_results("s", [("a", 1.0)])
    assert judge.publish(at("c", 0, 0)) == [Update("s", "b", "-", 1 - 1e-15, 0), Update("s", "c", "+", 0.0, 0)]
    follower.follow([Update("s", "a", "-", 1.0, 0), Update("s", "c", "+", 0.0, 0)])


def test_update_and_retract() -> None:
    judge = Definitions(PLANE, Lifetime(count=3, age=10))
    judge.subscribe("w", Within(Box(0, 0, 2, 2), "fire"))
    judge.subscribe("n", Nearest(0, 0, "fire", k=1))
    assert signs(judge.update(at("a", 0, 1, ts=0))) == [("+", "w", "a"), ("+", "n", "a")]
    assert signs(judge.update(at("a", 0, 2, ts=0))) == []
    assert signs(judge.update(at("a", 0, 3, ts=0))) == [("-", "w", "a")]
    assert judge.results("n") == [("a", 3.0)]
    assert judge.update(at("a", 0, 1, ts=0, expires=0)) == []  # late: the old version stays
    assert judge.results("n") == [("a", 3.0)]
    assert signs(judge.publish(at("b", 0, 1, ts=0))) == [("+", "w", "b"), ("-", "n", "a"), ("+", "n", "b")]
    assert signs(judge.update(at("b", 9, 9, ts=90_000))) == [("-", "w", "b")]  # live before the event: not an expiry
    assert judge.results("n") == [("b", about(math.hypot(9, 9)))]
    assert signs(judge.retract("b")) == [("-", "n", "b")]
    with pytest.raises(Refused, match="no such live message"):
        judge.retract("b")
    for n in range(3):
        judge.publish(at(str(n), 0, 0, ts=90_000))
    judge.retract("1")
    judge.publish(at("3", 0, 0, ts=90_000))
    assert [message for message, _ in judge.results("w")] == ["3", "2"]  # the place of "1" is not given to another
    without = Definitions(PLANE, None)
    for call in (lambda: without.retract("a"), lambda: without.update(at("a", 0, 0))):
        with pytest.raises(Refused, match="nothing lives without a window"):
            call()


@pytest.mark.parametrize(
    "told",
    [
        [Update("w", "a", "-", None, 0), Update("w", "a", "+", None, 0)],  # it stays
        [Update("w", "a", "+", None, 0)],
        [Update("n", "a", "-", 1.0, 0), Update("n", "a", "+", 2.0, 0)],
    ],
)
def test_a_follower_notices_a_message_that_stays(told: list[Update]) -> None:
    judge = Definitions(PLANE, Lifetime())
    follower = Follower(judge)
    judge.subscribe("w", Within(Box(0, 0, 2, 2), "fire"))
    judge.subscribe("n", Nearest(0, 0, "fire", k=1))
    follower.follow(judge.publish(at("a", 0, 1)))
    assert judge.update(at("a", 0, 2)) == []
    with pytest.raises(AssertionError):
        follower.follow(told)
