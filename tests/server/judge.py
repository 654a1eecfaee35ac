"""Lines of a log through a plain broker, one at a time: what the server must tell."""

from __future__ import annotations

from typing import Any

import nearcast as nc
from nearcast.model.codec import move_from_json, subscription_from_json


def control(broker: nc.Broker, row: dict[str, Any]) -> nc.Updates:
    if row["event"] == "subscribe":
        given = subscription_from_json({name: value for name, value in row.items() if name not in ("event", "replace")})
        return broker.subscribe(given.id, given.query, given.expires, replace=bool(row.get("replace")))
    if row["event"] == "unsubscribe":
        return broker.unsubscribe(row["id"])
    if row["event"] == "move":
        move = move_from_json(row)
        return broker.move(move.id, move.lon, move.lat, move.region)
    return broker.advance(row["ts"])
