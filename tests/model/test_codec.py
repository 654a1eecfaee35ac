from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.errors import InvalidInput
from nearcast.model import (
    Box,
    Circle,
    Message,
    Move,
    Nearest,
    Polygon,
    Publish,
    Query,
    Region,
    Retract,
    Similar,
    Subscribe,
    Subscription,
    TopK,
    Unsubscribe,
    Update,
    UpdateMessage,
    Within,
)
from nearcast.model.codec import (
    event_from_json,
    message_from_json,
    message_to_json,
    region_from_json,
    region_to_json,
    subscription_from_json,
    subscription_to_json,
    update_to_json,
)

strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
words = st.text("abé東 ", min_size=1, max_size=4)
coordinates = st.floats(allow_nan=False, allow_infinity=False)
ids = strings | st.integers(-(2**63), 2**63 - 1)
times = st.none() | st.integers(-(2**62), 2**62)
units = st.floats(0, 1)
points = st.tuples(coordinates, coordinates)
rings = st.lists(points, min_size=3, max_size=6, unique=True)
boxes = st.builds(
    lambda lons, lats: Box(lons[0], min(lats), lons[1], max(lats)),
    st.tuples(coordinates, coordinates),
    st.tuples(coordinates, coordinates),
)
regions: st.SearchStrategy[Region] = st.one_of(
    boxes,
    st.builds(Circle, coordinates, coordinates, st.floats(0, 1e9)),
    st.builds(Polygon, rings, st.lists(rings, max_size=2)),
)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Message, ids, coordinates, coordinates, text=strings, ts=times, expires=times),
    st.builds(Message, ids, coordinates, coordinates, keywords=st.lists(strings, max_size=3), ts=times, expires=times),
)
keywords = st.sampled_from(["fire smoke", "été 東京"]) | st.lists(words, min_size=1, max_size=3)
ks = st.integers(1, 2**31 - 1)
queries: st.SearchStrategy[Query] = st.one_of(
    st.builds(Within, regions, st.sampled_from(["fire OR smoke", "a NOT b"]) | keywords, st.booleans()),
    st.builds(
        Similar,
        coordinates,
        coordinates,
        keywords,
        units,
        units,
        st.sampled_from(["weighted", "overlap", "jaccard", "dice", "cosine"]),
        st.booleans(),
    ),
    st.builds(TopK, coordinates, coordinates, keywords, ks, units, st.booleans()),
    st.builds(Nearest, coordinates, coordinates, keywords, ks, st.sampled_from(["all", "any"]), st.booleans()),
)
subscriptions = st.builds(Subscription, ids, queries, times)

anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)

MESSAGE: dict[str, Any] = {"id": "m1", "lon": 1.5, "lat": 2.5, "text": "New ramen", "ts": 5}
FEATURE: dict[str, Any] = {
    "type": "Feature",
    "id": "m1",
    "geometry": {"type": "Point", "coordinates": [1.5, 2.5]},
    "properties": {"text": "New ramen", "ts": 5},
}
BOB: dict[str, Any] = {"id": "bob", "kind": "within", "region": [0, 0, 1, 1], "keywords": "fire OR smoke"}
ANN: dict[str, Any] = {"id": "ann", "kind": "topk", "lon": 1, "lat": 2, "keywords": "ramen sushi"}
POLYGON: dict[str, Any] = {"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [0, 4], [0, 0]]]}
CIRCLE: dict[str, Any] = {"type": "Circle", "coordinates": [1, 2], "radius": 500}


def through_json(obj: Any) -> Any:
    return json.loads(json.dumps(obj, allow_nan=False).encode())


def refusal(read: Callable[[Any], Any], obj: Any) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        read(obj)
    return caught.value


# Round trips


@given(messages)
def test_messages_come_back(message: Message) -> None:
    assert message_from_json(through_json(message_to_json(message))) == message


@given(messages, st.booleans())
def test_features_come_back(message: Message, id_inside: bool) -> None:
    flat = message_to_json(message)
    feature: dict[str, Any] = {
        "type": "Feature",
        "geometry": {"type": "Point", "coordinates": [flat.pop("lon"), flat.pop("lat")]},
        "properties": flat,
    }
    if not id_inside:
        feature["id"] = flat.pop("id")
    assert message_from_json(through_json(feature)) == message


@given(regions)
def test_regions_come_back(region: Region) -> None:
    obj = through_json(region_to_json(region))
    assert region_from_json(obj) == region
    assert region_from_json(json.dumps(obj)) == region
    assert region_from_json(region) is region


@given(subscriptions)
def test_subscriptions_come_back(subscription: Subscription) -> None:
    obj = through_json(subscription_to_json(subscription))
    again = subscription_from_json(obj)
    assert again == subscription
    assert again.query.words == subscription.query.words
    assert event_from_json(obj) == Subscribe(subscription)


@given(messages)
def test_published_messages_come_back(message: Message) -> None:
    obj = message_to_json(message)
    assert event_from_json(obj) == event_from_json({**obj, "event": "publish"}) == Publish(message, message.ts)


# Whatever is thrown at it: a value, or a named error


@given(st.fixed_dictionaries({}, optional=dict.fromkeys([*MESSAGE, "keywords", "type", "geometry"], anything)))
def test_any_message_is_read_or_refused(obj: dict[str, Any]) -> None:
    for base in ({}, MESSAGE, FEATURE):
        try:
            message = message_from_json({**base, **obj})
        except InvalidInput as error:
            assert error.field in {*MESSAGE, "keywords", "geometry", "properties"}  # noqa: PT017
        else:
            assert isinstance(message, Message)


@given(st.sampled_from([BOB, ANN]), st.dictionaries(st.sampled_from([*BOB, *ANN, "k", "expires"]), anything))
def test_any_subscription_is_read_or_refused(base: dict[str, Any], changes: dict[str, Any]) -> None:
    try:
        subscription = subscription_from_json({**base, **changes})
    except InvalidInput as error:
        assert error.field in {*BOB, *ANN, "k", "alpha", "expires"}  # noqa: PT017
    else:
        assert isinstance(subscription, Subscription)


@given(anything | st.builds(lambda obj, at: {**obj, "coordinates": at}, st.sampled_from([POLYGON, CIRCLE]), anything))
def test_any_region_is_read_or_refused(obj: Any) -> None:
    try:
        region = region_from_json(obj)
    except InvalidInput as error:
        assert error.field == "region"  # noqa: PT017
    else:
        assert isinstance(region, Region)


@given(anything | st.dictionaries(st.sampled_from(["event", "id", "kind", "lon", "lat", "region", "ts"]), anything))
def test_any_event_is_read_or_refused(obj: Any) -> None:
    try:
        event = event_from_json(obj)
    except InvalidInput:
        return
    assert isinstance(event, Publish | Subscribe | Unsubscribe | Move)


# Messages


def test_message_forms() -> None:
    expected = Message("m1", 1.5, 2.5, "New ramen", ts=5)
    assert message_from_json(MESSAGE) == expected
    assert message_from_json({**MESSAGE, "likes": 3, "keywords": None, "expires": None, "type": "post"}) == expected
    assert message_from_json(FEATURE) == expected
    assert message_to_json(expected) == MESSAGE
    assert message_to_json(Message(1, 0, 0, keywords=["New York"], expires=9)) == {
        "id": 1,
        "lon": 0.0,
        "lat": 0.0,
        "keywords": ["New York"],
        "expires": 9,
    }


def test_feature_details() -> None:
    high = {**FEATURE, "geometry": {"type": "Point", "coordinates": [1.5, 2.5, 80]}}
    assert message_from_json(high) == message_from_json(FEATURE)
    both = {**FEATURE, "properties": {"id": "other", "text": "New ramen", "ts": 5, "lon": 9}}
    assert message_from_json(both) == message_from_json(FEATURE)
    tags = {**FEATURE, "properties": {"keywords": ["a b"], "expires": 7}}
    assert message_from_json(tags) == Message("m1", 1.5, 2.5, keywords=["a b"], expires=7)


@pytest.mark.parametrize("name", ["id", "lon", "lat"])
def test_messages_need(name: str) -> None:
    for obj in ({**MESSAGE, name: None}, {key: value for key, value in MESSAGE.items() if key != name}):
        assert str(refusal(message_from_json, obj)) == f"{name} is required, got None"


def test_message_refusals() -> None:
    assert str(refusal(message_from_json, [1])) == "message must be a JSON object, got [1]"
    assert str(refusal(message_from_json, {**MESSAGE, "text": None})) == (
        "text is required when there are no keywords, got None"
    )
    assert str(refusal(message_from_json, {**MESSAGE, "lon": "1"})) == "lon must be a number, got '1'"
    assert (
        str(refusal(message_from_json, {**MESSAGE, "ts": 5.0}))
        == "ts must be whole epoch milliseconds, a datetime or an ISO 8601 string, got 5.0"
    )


def test_feature_refusals() -> None:
    for geometry in ({"type": "LineString", "coordinates": [[0, 0], [1, 1]]}, "here", {"type": "Point"}, [1, 2]):
        error = refusal(message_from_json, {**FEATURE, "geometry": geometry})
        assert str(error).startswith("geometry must be a GeoJSON Point, got ")
    short = {"type": "Point", "coordinates": [1]}
    assert str(refusal(message_from_json, {**FEATURE, "geometry": short})).startswith(
        "geometry must be a GeoJSON Point"
    )
    odd = {"type": "Point", "coordinates": ["x", 2]}
    assert str(refusal(message_from_json, {**FEATURE, "geometry": odd})) == "lon must be a number, got 'x'"
    assert str(refusal(message_from_json, {**FEATURE, "geometry": None})) == "geometry is required, got None"
    assert str(refusal(message_from_json, {**FEATURE, "id": None})) == "id is required, got None"
    assert str(refusal(message_from_json, {**FEATURE, "properties": 5})) == "properties must be a JSON object, got 5"
    assert str(refusal(message_from_json, {**FEATURE, "properties": None})) == (
        "text is required when there are no keywords, got None"
    )


# Regions


def test_region_forms() -> None:
    assert region_from_json([1, 2, 3, 4]) == region_from_json((1, 2, -9, 3, 4, 9)) == Box(1, 2, 3, 4)
    assert region_from_json(POLYGON) == Polygon([(0, 0), (4, 0), (0, 4)])
    hole = [[1, 1, 7], [2, 1, 7], [1, 2, 7]]
    with_hole = {"type": "Polygon", "coordinates": [*POLYGON["coordinates"], hole], "bbox": [0, 0, 4, 4]}
    assert region_from_json(with_hole) == Polygon([(0, 0), (4, 0), (0, 4)], [[(1, 1), (2, 1), (1, 2)]])
    assert region_from_json(CIRCLE) == Circle(1, 2, 500)
    assert region_to_json(Polygon([(0, 0), (4, 0), (0, 4)])) == POLYGON
    assert region_to_json(Circle(1, 2, 500)) == CIRCLE
    assert region_to_json(Box(1, 2, 3, 4)) == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("obj", "rule"),
    [
        (5, "must be a Box, Circle, Polygon or MultiPolygon, a bbox, GeoJSON or a geometry"),
        ("5", "must be a Box, Circle, Polygon or MultiPolygon, a bbox, GeoJSON or a geometry"),
        (None, "must be a Box, Circle, Polygon or MultiPolygon, a bbox, GeoJSON or a geometry"),
        ("[1, 2", "must be JSON when it is a string"),
        ("[" * 100_000, "must be JSON when it is a string"),
        ([1, 2, 3], "is malformed (bbox must be [min_lon, min_lat, max_lon, max_lat], got [1, 2, 3])"),
        ([0, 2, 1, 1], "is malformed (min_lat must be <= max_lat (1.0), got 2.0)"),
        ("[0, NaN, 1, 1]", "is malformed (min_lat must be finite, got nan)"),
        ([0, None, 1, 1], "is malformed (min_lat must be a number, got None)"),
        ({}, "is malformed (type is required, got None)"),
        ({"type": "MultiPolygon"}, "is malformed (coordinates is required, got None)"),
        ({"type": ["Circle"]}, "is malformed (type must be one of Polygon, MultiPolygon, Circle, got ['Circle'])"),
        ({"type": "Circle", "radius": 5}, "is malformed (coordinates is required, got None)"),
        ({"type": "Circle", "coordinates": [1, 2]}, "is malformed (radius is required, got None)"),
        ({**CIRCLE, "radius": -5}, "is malformed (radius must be >= 0, got -5)"),
        ({**CIRCLE, "coordinates": [1]}, "is malformed (coordinates must hold [lon, lat] positions, got [1])"),
        ({**CIRCLE, "coordinates": ["1", 2]}, "is malformed (lon must be a number, got '1')"),
        ({"type": "Polygon"}, "is malformed (coordinates is required, got None)"),
        ({"type": "Polygon", "coordinates": []}, "is malformed (coordinates must be a list of rings, got [])"),
        ({"type": "Polygon", "coordinates": [5]}, "is malformed (coordinates must be a list of rings, got [5])"),
        ({"type": "Polygon", "coordinates": [[5]]}, "is malformed (coordinates must hold [lon, lat] positions, got 5)"),
        (
            {"type": "Polygon", "coordinates": [[[0, 0], [1, 1]]]},
            "is malformed (points must have at least 3 different points in each ring, got [(0, 0), (1, 1)])",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_region_refusals(obj: Any, rule: str) -> None:
    error = refusal(region_from_json, obj)
    assert (error.field, error.value, error.rule) == ("region", obj, rule)
    assert str(error).startswith(f"region {rule}, got ")


# Subscriptions


def test_subscription_forms() -> None:
    assert subscription_from_json(BOB) == Subscription("bob", Within(Box(0, 0, 1, 1), "fire OR smoke"))
    assert subscription_from_json({**ANN, "k": None, "match": None, "colour": None, "expires": 9}) == Subscription(
        "ann", TopK(1, 2, "ramen sushi"), 9
    )
    assert subscription_from_json(
        {"id": 1, "kind": "similar", "lon": 1, "lat": 2, "keywords": ["a"], "delta": 0, "tau": 1, "measure": "dice"}
    ) == Subscription(1, Similar(1, 2, ["a"], 0, 1, "dice"))
    assert subscription_from_json({**ANN, "kind": "nearest", "match": "any", "k": 3, "backfill": False}) == (
        Subscription("ann", Nearest(1, 2, "ramen sushi", 3, "any", False))
    )
    assert subscription_to_json(subscription_from_json({**ANN, "expires": 9})) == {
        "id": "ann",
        "kind": "topk",
        "lon": 1.0,
        "lat": 2.0,
        "keywords": "ramen sushi",
        "k": 20,
        "alpha": 0.5,
        "backfill": True,
        "expires": 9,
    }


def test_a_box_by_its_sides() -> None:
    sides = {"min_lon": 0, "min_lat": 0, "max_lon": 1, "max_lat": 1}
    assert subscription_from_json({**BOB, "region": None, **sides}) == subscription_from_json(BOB)
    assert str(refusal(subscription_from_json, {**BOB, **sides})) == (
        "min_lon must be left out when a region is given, got 0"
    )
    assert str(refusal(subscription_from_json, {**BOB, "region": None, **sides, "max_lat": None})) == (
        "max_lat is required, got None"
    )
    assert event_from_json({"event": "move", "id": "bob", **sides}) == Move("bob", region=Box(0, 0, 1, 1))


@pytest.mark.parametrize(
    ("base", "name"),
    [(BOB, name) for name in BOB]
    + [(ANN, name) for name in ANN]
    + [({**ANN, "kind": "similar", "delta": 0.5, "tau": 0.5}, name) for name in ("delta", "tau")],
)
def test_subscriptions_need(base: dict[str, Any], name: str) -> None:
    error = refusal(subscription_from_json, {**base, name: None})
    assert (error.field, str(error)) == (name, f"{name} is required, got None")


def test_subscription_refusals() -> None:
    assert str(refusal(subscription_from_json, "bob")) == "subscription must be a JSON object, got 'bob'"
    assert str(refusal(subscription_from_json, {**BOB, "kind": "inside"})) == (
        "kind must be one of within, similar, topk, nearest, got 'inside'"
    )
    assert str(refusal(subscription_from_json, {**BOB, "regoin": 1})) == (
        "regoin is not a field of a within subscription (id, kind, region, keywords, backfill, where, expires), got 1"
    )
    assert str(refusal(subscription_from_json, {**BOB, "k": 3})).startswith("k is not a field of a within subscription")
    assert refusal(subscription_from_json, {**ANN, "min_lon": 3}).field == "min_lon"
    assert refusal(subscription_from_json, {**ANN, 5: 3}).field == "5"
    assert refusal(subscription_from_json, {**ANN, "ts": 3}).field == "ts"
    assert str(refusal(subscription_from_json, {**ANN, "k": 0})) == "k must be >= 1, got 0"
    assert str(refusal(subscription_from_json, {**BOB, "region": [1]})).startswith("region is malformed (bbox must be ")
    assert (
        str(refusal(subscription_from_json, {**BOB, "expires": "9"}))
        == "expires must be whole epoch milliseconds, a datetime or an ISO 8601 string, got '9'"
    )


# Events and updates


def test_event_forms() -> None:
    ann, bob = subscription_from_json(ANN), subscription_from_json(BOB)
    assert event_from_json({**ANN, "ts": 3}) == event_from_json({**ANN, "event": "subscribe", "ts": 3})
    assert event_from_json({**ANN, "ts": 3}) == Subscribe(ann, 3)
    assert event_from_json({**BOB, "event": None}) == Subscribe(bob)
    assert event_from_json(FEATURE) == Publish(message_from_json(MESSAGE), 5)
    assert event_from_json({**MESSAGE, "event": "publish", "kind": "post"}) == Publish(message_from_json(MESSAGE), 5)
    assert event_from_json({**MESSAGE, "event": "update"}) == UpdateMessage(message_from_json(MESSAGE), 5)
    assert event_from_json({**MESSAGE, "event": "update"}) != Publish(message_from_json(MESSAGE), 5)
    assert event_from_json({"event": "retract", "id": "m1", "ts": 3}) == Retract("m1", 3)
    assert event_from_json({"event": "unsubscribe", "id": 7, "ts": 3}) == Unsubscribe(7, 3)
    assert event_from_json({"event": "move", "id": 7, "lon": 1, "lat": 2, "ts": 3}) == Move(7, 1, 2, ts=3)
    assert event_from_json({"event": "move", "id": 7, "region": CIRCLE}) == Move(7, region=Circle(1, 2, 500))


def test_event_refusals() -> None:
    assert str(refusal(event_from_json, None)) == "event must be a JSON object, got None"
    assert str(refusal(event_from_json, {**MESSAGE, "event": "say"})) == (
        "event must be one of publish, update, retract, subscribe, unsubscribe, move, got 'say'"
    )
    assert str(refusal(event_from_json, {"event": "retract"})) == "id is required, got None"
    assert str(refusal(event_from_json, {"event": "retract", "id": 1, "text": "x"})) == (
        "text is not a field of a retract (event, id, ts), got 'x'"
    )
    assert str(refusal(event_from_json, {"event": "unsubscribe"})) == "id is required, got None"
    assert str(refusal(event_from_json, {"event": "unsubscribe", "id": 1, "why": "x"})) == (
        "why is not a field of an unsubscribe (event, id, ts), got 'x'"
    )
    assert str(refusal(event_from_json, {"event": "move", "id": 1, "keywords": "x"})) == (
        "keywords is not a field of a move (event, id, lon, lat, region, ts), got 'x'"
    )
    assert str(refusal(event_from_json, {"event": "move", "lon": 1, "lat": 2})) == "id is required, got None"
    assert str(refusal(event_from_json, {"event": "move", "id": 1, "lon": 1})) == (
        "lat is required when there is no region, got None"
    )
    assert str(refusal(event_from_json, {"event": "move", "id": 1, "lon": 1, "region": CIRCLE})) == (
        "lon must be left out when a region is given, got 1"
    )
    assert (
        str(refusal(event_from_json, {**ANN, "ts": "3"}))
        == "ts must be whole epoch milliseconds, a datetime or an ISO 8601 string, got '3'"
    )
    assert str(refusal(event_from_json, {**MESSAGE, "lat": None})) == "lat is required, got None"


def test_update_form() -> None:
    assert update_to_json(Update("ann", 7, "-", None, 9)) == {
        "subscription": "ann",
        "message": 7,
        "sign": "-",
        "score": None,
        "ts": 9,
    }
