from __future__ import annotations

from typing import Any

import pytest

import nearcast as nc

WINDOW = nc.Window(count=5)


def broker(window: nc.Window | None = WINDOW) -> nc.Broker:
    return nc.Broker(nc.Space((0, 0, 3, 4), metric="euclidean", max_distance=10), window)


def test_a_topk_score_is_taken_apart() -> None:
    ours = broker()
    ours.subscribe("ann", nc.TopK(0, 0, "ramen sushi", k=1, alpha=0.25))
    ours.publish(nc.Message("m1", 3, 4, "ramen now", ts=1))
    said = ours.explain("ann", "m1")
    assert said.in_result
    assert said.score == ours.results("ann")[0][1] == pytest.approx(0.25 * 0.5 + 0.75 * 0.5)
    assert said.parts == {
        "distance": 5.0,
        "shared words": ["ramen"],
        "missing words": ["sushi"],
        "k": 1,
        "alpha": 0.25,
        "ssim": 0.5,
        "cos": pytest.approx(0.5),
        "score": pytest.approx(0.5),
    }
    assert said.reason == "in the result: score 0.5"
    assert str(said).splitlines()[:2] == ["in the result: score 0.5", "  distance: 5.0"]
    ours.publish(nc.Message("m2", 0, 0, "ramen sushi", ts=2))
    after = ours.explain("ann", "m1")
    assert not after.in_result
    assert after.score == said.score
    assert after.reason == "not in the result: 1 other message is better"
    ours.publish(nc.Message("m3", 0, 0, "soup", ts=2))
    none = ours.explain("ann", "m3")
    assert (none.in_result, none.score) == (False, None)
    assert none.reason == "not in the result: it shares no word"
    ours.subscribe("all", nc.TopK(0, 0, "soup", alpha=1.0))
    assert "cos" not in ours.explain("all", "m3").parts


def test_a_nearest_message() -> None:
    ours = broker()
    ours.subscribe("all", nc.Nearest(0, 0, "ramen sushi", k=1))
    ours.subscribe("any", nc.Nearest(0, 0, "ramen sushi", k=1, match="any"))
    ours.publish(nc.Message("m1", 3, 4, "ramen", ts=1))
    said = ours.explain("any", "m1")
    assert (said.in_result, said.score, said.reason) == (True, 5.0, "in the result: distance 5")
    assert said.parts["match"] == "any"
    said = ours.explain("all", "m1")
    assert (said.in_result, said.score) == (False, None)
    assert said.reason == "not in the result: it does not hold all the words"
    assert said.parts["missing words"] == ["sushi"]


def test_a_similarity() -> None:
    ours = broker()
    ours.publish(nc.Message("m1", 3, 4, "ramen", ts=1))
    ours.subscribe("near", nc.Similar(0, 0, "ramen sushi", 0.5, 0.5))
    ours.subscribe("far", nc.Similar(0, 0, "ramen sushi", 0.5, 0.6, "jaccard"))
    ours.subscribe("place", nc.Similar(0, 0, "soup", 0.0, 0.5))
    said = ours.explain("near", "m1")
    assert (said.in_result, said.score, said.reason) == (True, 0.5, "in the result: score 0.5 reaches tau 0.5")
    assert (
        said.parts | {"tsim": 0.5, "ssim": 0.5, "measure": "weighted", "delta": 0.5, "tau": 0.5, "score": 0.5}
        == said.parts
    )
    said = ours.explain("far", "m1")
    assert (said.in_result, said.reason) == (False, "not in the result: score 0.5 is below tau 0.6")
    said = ours.explain("place", "m1")
    assert said.in_result
    assert "tsim" not in said.parts


def test_a_region_and_an_expression() -> None:
    ours = broker()
    ours.subscribe("bob", nc.Within(nc.Box(0, 0, 1, 1), "fire AND (smoke OR ash) AND NOT camp"))
    for id, place, text in [
        ("in", (1, 1), "fire ash"),
        ("out", (2, 1), "fire smoke"),
        ("camp", (1, 1), "fire smoke camp"),
        ("few", (1, 1), "fire"),
    ]:
        ours.publish(nc.Message(id, *place, text))
    said = ours.explain("bob", "in")
    assert (said.in_result, said.score) == (True, None)
    assert said.reason == "in the result: inside the region, and its words satisfy the expression"
    assert said.parts["because of"] == ["ash", "fire"]
    said = ours.explain("bob", "out")
    assert (said.in_result, said.reason) == (False, "not in the result: its place is outside the region")
    said = ours.explain("bob", "camp")
    assert said.reason == "not in the result: its words do not satisfy the expression"
    assert said.parts["forbidden words"] == ["camp"]
    assert ours.explain("bob", "few").parts["missing words"] == ["ash", "smoke"]


@pytest.mark.parametrize(
    "query",
    [
        nc.Within(nc.Box(0, 0, 9, 9), "a", backfill=False),
        nc.Similar(0, 0, "a", 0.5, 0.1, backfill=False),
        nc.TopK(0, 0, "a", backfill=False),
        nc.Nearest(0, 0, "a", backfill=False),
    ],
)
def test_what_came_before_a_subscription_without_backfill(query: Any) -> None:
    ours = broker()
    ours.publish(nc.Message(1, 1, 1, "a"))
    ours.subscribe(1, query)
    said = ours.explain(1, 1)
    assert not said.in_result
    assert said.reason == "not in the result: it arrived before the subscription, which has no backfill"


def test_without_a_window_only_held_messages_are_known() -> None:
    ours = broker(None)
    ours.subscribe("n", nc.Nearest(0, 0, "a", k=1))
    ours.subscribe("w", nc.Within(nc.Box(0, 0, 9, 9), "a"))
    ours.publish([nc.Message(1, 1, 0, "a"), nc.Message(2, 2, 0, "a")])
    assert ours.explain("n", 1).reason == "in the result: distance 1"
    for id, message in (("n", 2), ("w", 1)):
        with pytest.raises(nc.UnknownId, match="must be the id of a live message"):
            ours.explain(id, message)


def test_unknown_ids() -> None:
    ours = broker()
    ours.subscribe("ann", nc.TopK(0, 0, "a"))
    ours.publish(nc.Message(1, 0, 0, "a"))
    with pytest.raises(nc.UnknownId, match=r"^id must be the id of a subscription, got 'bob'$"):
        ours.explain("bob", 1)
    with pytest.raises(nc.UnknownId, match=r"^message_id must be the id of a live message, got 2$"):
        ours.explain("ann", 2)
    with pytest.raises(nc.UnknownId, match=r"^message_id must be the id of a live message, got True$"):
        ours.explain("ann", True)
