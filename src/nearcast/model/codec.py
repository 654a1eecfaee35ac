"""Parsed JSON becomes messages, subscriptions, regions and events; they and updates become JSON again.

A JSON null is an absent field. Fields that a message does not have are ignored, since posts carry many; in
subscriptions and other events they are errors, since there they are misspelt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from nearcast.errors import InvalidInput
from nearcast.model.checks import one_of
from nearcast.model.event import Event, Move, Publish, Retract, Subscribe, Unsubscribe, UpdateMessage
from nearcast.model.geojson import region_from_json, region_to_json
from nearcast.model.message import Message
from nearcast.model.query import QUERIES, Query, Subscription
from nearcast.model.region import Box, Region
from nearcast.model.update import Update

Json = dict[str, Any]

EVENTS = ("publish", "update", "retract", "subscribe", "unsubscribe", "move")
_SIDES = ("min_lon", "min_lat", "max_lon", "max_lat")
_QUERY_FIELDS = {kind: tuple(field for field in fields(query) if field.init) for kind, query in QUERIES.items()}


def message_from_json(obj: Any) -> Message:
    """A message from its flat form or from a GeoJSON Feature whose geometry is a Point.

    Raises
    ------
    InvalidInput
        For a missing field, and for a value that `Message` refuses.

    Examples
    --------
    >>> message_from_json({"id": 7, "lon": 2.35, "lat": 48.86, "text": "ramen", "likes": 3})
    Message(id=7, lon=2.35, lat=48.86, text='ramen', keywords=None, ts=None, expires=None, fields=None)
    """
    obj = _object("message", obj)
    if obj.get("type") == "Feature":
        obj = _flattened(obj)
    return Message(
        id=_required(obj, "id"),
        lon=_required(obj, "lon"),
        lat=_required(obj, "lat"),
        text=obj.get("text"),
        keywords=obj.get("keywords"),
        ts=obj.get("ts"),
        expires=obj.get("expires"),
        fields=obj.get("fields"),
    )


def message_to_json(message: Message) -> Json:
    """The flat form of a message, without the fields it does not have."""
    values = {field.name: getattr(message, field.name) for field in fields(message)}
    if message.keywords is not None:
        values["keywords"] = list(message.keywords)
    if message.fields is not None:
        values["fields"] = {
            name: list(value) if isinstance(value, tuple) else value for name, value in message.fields.items()
        }
    return {name: value for name, value in values.items() if value is not None}


def subscription_from_json(obj: Any) -> Subscription:
    """A subscription from its JSON form: `id`, `kind`, the query's own fields, and `expires` or not.

    Raises
    ------
    InvalidInput
        For a missing or unknown field, and for a value that the query or `Subscription` refuses.

    Examples
    --------
    >>> bob = {"id": "bob", "kind": "within", "region": [-74.0, 40.7, -73.9, 40.8], "keywords": "fire OR smoke"}
    >>> subscription_from_json(bob).query.region
    Box(min_lon=-74.0, min_lat=40.7, max_lon=-73.9, max_lat=40.8)
    """
    obj = _object("subscription", obj)
    kind = one_of("kind", _required(obj, "kind"), QUERIES)
    own = _QUERY_FIELDS[kind]
    names = [field.name for field in own]
    sides = _SIDES if "region" in names else ()
    _refuse_others(obj, f"a {kind} subscription", ("id", "kind", *names, "expires"), sides)
    id_ = _required(obj, "id")
    values: Json = {}
    for field in own:
        value = _region(obj) if field.name == "region" else obj.get(field.name)
        if value is not None:
            values[field.name] = value
        elif field.default is MISSING:
            raise InvalidInput(field.name, None, "is required")
    query: Query = QUERIES[kind](**values)
    return Subscription(id_, query, obj.get("expires"))


def subscription_to_json(subscription: Subscription) -> Json:
    """The JSON form of a subscription, with every field of its query."""
    query = subscription.query
    obj: Json = {"id": subscription.id, "kind": query.kind}
    for field in _QUERY_FIELDS[query.kind]:
        value = getattr(query, field.name)
        if field.name == "region":
            value = region_to_json(value)
        elif isinstance(value, tuple):
            value = list(value)
        elif field.name in ("where", "decay") and value is None:
            continue
        obj[field.name] = value
    if subscription.expires is not None:
        obj["expires"] = subscription.expires
    return obj


def event_from_json(obj: Any) -> Event:
    """One line of a log. Without `event` it is a subscribe if it has a `kind`, else a publish.

    Raises
    ------
    InvalidInput
        For a missing or unknown field, and for a value that is refused.

    Examples
    --------
    >>> event_from_json({"event": "move", "id": "ann", "lon": -73.95, "lat": 40.7})
    Move(id='ann', lon=-73.95, lat=40.7, region=None, ts=None)
    """
    obj = _object("event", obj)
    event = obj.get("event")
    if event is None:
        event = "publish" if obj.get("kind") is None else "subscribe"
    event = one_of("event", event, EVENTS)
    if event in ("publish", "update"):
        message = message_from_json(obj)
        return (Publish if event == "publish" else UpdateMessage)(message, message.ts)
    if event == "retract":
        _refuse_others(obj, "a retract", ("event", "id", "ts"))
        return Retract(_required(obj, "id"), obj.get("ts"))
    if event == "subscribe":
        rest = {name: value for name, value in obj.items() if name not in ("event", "ts")}
        return Subscribe(subscription_from_json(rest), obj.get("ts"))
    if event == "unsubscribe":
        _refuse_others(obj, "an unsubscribe", ("event", "id", "ts"))
        return Unsubscribe(_required(obj, "id"), obj.get("ts"))
    return move_from_json(obj)


def move_from_json(obj: Any) -> Move:
    """A move from its JSON form, with or without `event`.

    Raises
    ------
    InvalidInput
        For a missing or unknown field, and for a value that is refused.
    """
    obj = _object("move", obj)
    _refuse_others(obj, "a move", ("event", "id", "lon", "lat", "region", "ts"), _SIDES)
    return Move(_required(obj, "id"), obj.get("lon"), obj.get("lat"), _region(obj), obj.get("ts"))


def update_to_json(update: Update) -> Json:
    """The JSON form of an update."""
    return {field.name: getattr(update, field.name) for field in fields(update)}


def _object(what: str, obj: Any) -> Mapping[str, Any]:
    if not isinstance(obj, Mapping):
        raise InvalidInput(what, obj, "must be a JSON object")
    return obj


def _required(obj: Mapping[str, Any], name: str) -> Any:
    value = obj.get(name)
    if value is None:
        raise InvalidInput(name, None, "is required")
    return value


def _refuse_others(obj: Mapping[str, Any], what: str, names: tuple[str, ...], others: tuple[str, ...] = ()) -> None:
    for name, value in obj.items():
        if value is not None and name not in names and name not in others:
            raise InvalidInput(str(name), value, f"is not a field of {what} ({', '.join(names)})")


def _flattened(feature: Mapping[str, Any]) -> Json:
    """The flat form of a GeoJSON Feature: its properties, its id if it has one, its point."""
    geometry = _required(feature, "geometry")
    point = geometry.get("coordinates") if isinstance(geometry, Mapping) and geometry.get("type") == "Point" else None
    if not isinstance(point, list | tuple) or len(point) < 2:
        raise InvalidInput("geometry", geometry, "must be a GeoJSON Point")
    properties = feature.get("properties")
    flat: Json = {} if properties is None else dict(_object("properties", properties))
    if feature.get("id") is not None:
        flat["id"] = feature["id"]
    flat["lon"], flat["lat"] = point[0], point[1]
    return flat


def _region(obj: Mapping[str, Any]) -> Region | None:
    """The region of a subscription or move: `region`, or a box given by its four sides."""
    region = obj.get("region")
    given = [side for side in _SIDES if obj.get(side) is not None]
    if region is None:
        return Box(*(_required(obj, side) for side in _SIDES)) if given else None
    if given:
        raise InvalidInput(given[0], obj[given[0]], "must be left out when a region is given")
    return region_from_json(region)
