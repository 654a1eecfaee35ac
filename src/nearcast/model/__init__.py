"""What is said: messages, queries, regions, expressions, updates, and the JSON form of them all.

A **message** says some words at a place and a time. A **subscription** is a question that stands: an id and one of
four queries. `Within` asks for every message in a region whose words satisfy an expression, `Similar` for every message
that is close enough in words and place, `TopK` for the k best of the live messages, `Nearest` for the k nearest. As
messages arrive and expire and subscribers move, results change; an **update** tells one subscriber about one change.

Everything here is a value: a frozen dataclass that checked itself when it was made. A number that is not finite, a k
of 0, an expression that does not parse raise `InvalidInput` with the field, the value and the rule, so whoever holds
one of these objects need not look again. What a single value cannot know (whether a latitude is possible, whether
an id is taken) is checked further right, by the space and the broker.

Words are the one idea that both sides share. A text is normalised (NFKC), case-folded and cut at everything that is not
a letter or digit; the words of a keywords list are folded and stay whole (`words.py`). An expression is a text with
operators, and becomes clauses: words to ask for and words to forbid, of which one clause must hold (`expression.py`).

Outside Python the same values are JSON, with GeoJSON for places and regions (`codec.py`). This package holds no arrays
and knows nothing of indexes; `columns` turns its values into rows.
"""

from __future__ import annotations

from nearcast.model.analyzer import Analyzer
from nearcast.model.event import Event, Move, Publish, Retract, Subscribe, Unsubscribe, UpdateMessage
from nearcast.model.expression import MAX_CLAUSES, Clause, Expression, clauses, parse
from nearcast.model.message import Message
from nearcast.model.query import Nearest, Query, Similar, Subscription, TopK, Within
from nearcast.model.region import Box, Circle, MultiPolygon, Polygon, Region
from nearcast.model.update import Reject, Update
from nearcast.model.words import fold, words_in, words_of

__all__ = [
    "MAX_CLAUSES",
    "Analyzer",
    "Box",
    "Circle",
    "Clause",
    "Event",
    "Expression",
    "Message",
    "Move",
    "MultiPolygon",
    "Nearest",
    "Polygon",
    "Publish",
    "Query",
    "Region",
    "Reject",
    "Retract",
    "Similar",
    "Subscribe",
    "Subscription",
    "TopK",
    "Unsubscribe",
    "Update",
    "UpdateMessage",
    "Within",
    "clauses",
    "fold",
    "parse",
    "words_in",
    "words_of",
]
