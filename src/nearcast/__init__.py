"""Nearcast answers standing questions over a stream of geo-tagged text, at once and exactly."""

from nearcast.broker import Broker
from nearcast.broker.explain import Explanation
from nearcast.columns.updates import Updates
from nearcast.errors import DuplicateId, InvalidInput, NearcastError, SetupError, SnapshotError, UnknownId
from nearcast.model import Box, Circle, Message, Nearest, Polygon, Reject, Similar, Subscription, TopK, Update, Within
from nearcast.space.space import Space
from nearcast.text.weights import Weights
from nearcast.window.window import Window

__all__ = [
    "Box",
    "Broker",
    "Circle",
    "DuplicateId",
    "Explanation",
    "InvalidInput",
    "Message",
    "NearcastError",
    "Nearest",
    "Polygon",
    "Reject",
    "SetupError",
    "Similar",
    "SnapshotError",
    "Space",
    "Subscription",
    "TopK",
    "UnknownId",
    "Update",
    "Updates",
    "Weights",
    "Window",
    "Within",
]
