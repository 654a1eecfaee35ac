"""Bodies of messages and subscriptions, kept beside the broker so that what is pushed can be shown.

A message's body is a row of the table that it came in; the table stays as long as one of its rows is kept. Rows are let
go from the oldest on: past the window's count, or past its age, never before the broker forgets them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice, repeat, takewhile
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.model.codec import message_from_json, move_from_json
from nearcast.model.geojson import region_to_json
from nearcast.server.durable.apply import Outcome, message_of, subscription_of
from nearcast.server.durable.operations import Forms, Json, plain_row
from nearcast.window.window import Window

_WITHOUT_WINDOW = 100_000  # messages whose bodies are kept if nothing says how long they live

Id = str | int


class Messages:
    """Bodies of the newest messages."""

    def __init__(self, window: Window | None) -> None:
        self._most = _WITHOUT_WINDOW if window is None else window.count
        self._age = None if window is None or window.age is None else window.age_ms
        self._rows: dict[Id, tuple[pa.Table, int]] = {}
        self.clock: int | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, table: pa.Table, refused: set[int]) -> None:
        """File the rows of a table, but for those that were refused or late."""
        ids = table.column("id").to_pylist()
        if not refused and self._rows.keys().isdisjoint(ids):
            self._rows.update(zip(ids, zip(repeat(table), range(len(ids)), strict=False), strict=True))
        else:
            for row, id in enumerate(ids):
                if row not in refused:
                    self._rows.pop(id, None)  # it goes to the end
                    self._rows[id] = table, row
        if "ts" in table.schema.names and pa.types.is_integer(table.schema.field("ts").type):
            latest = pc.max(table.column("ts")).as_py()
            if latest is not None:
                self.advance(latest)
        self._let_go()

    def remove(self, id: Id) -> None:
        """A message was withdrawn."""
        self._rows.pop(id, None)

    def advance(self, ts: int) -> None:
        """The clock is at least this."""
        self.clock = ts if self.clock is None else max(self.clock, ts)

    def _let_go(self) -> None:
        """Forget the oldest. They are listed before they go: to look for the first again would pass all that went."""
        if self._most is not None and len(self._rows) > self._most:
            for id in list(islice(self._rows, len(self._rows) - self._most)):
                del self._rows[id]
        if self._age is not None and self.clock is not None:
            for id in list(takewhile(self._is_over, self._rows)):
                del self._rows[id]

    def _is_over(self, id: Id) -> bool:
        table, row = self._rows[id]
        ts = table.column("ts")[row].as_py() if "ts" in table.schema.names else None
        assert self._age is not None
        assert self.clock is not None
        return isinstance(ts, int) and ts + self._age <= self.clock

    def __contains__(self, id: Id) -> bool:
        return id in self._rows

    def get(self, ids: Iterable[Id]) -> dict[Id, Json]:
        """The bodies of these messages, as far as they are kept."""
        by_table: dict[int, tuple[pa.Table, list[Id], list[int]]] = {}
        for id in ids:
            found = self._rows.get(id)
            if found is not None:
                _, own, rows = by_table.setdefault(id_of(found[0]), (found[0], [], []))
                own.append(id)
                rows.append(found[1])
        bodies: dict[Id, Json] = {}
        for table, own, rows in by_table.values():
            for id, body in zip(own, table.take(pa.array(rows, pa.int64())).to_pylist(), strict=True):
                bodies[id] = plain_row(body)
        return bodies

    def to_tables(self) -> Iterator[pa.Table]:
        """All of them, oldest first."""
        runs: list[tuple[pa.Table, list[int]]] = []
        for table, row in self._rows.values():
            if not runs or runs[-1][0] is not table:
                runs.append((table, []))
            runs[-1][1].append(row)
        for table, rows in runs:
            yield table.take(pa.array(rows, pa.int64()))


def id_of(table: pa.Table) -> int:
    """Tells tables apart."""
    return id(table)


class Subscriptions:
    """Bodies of all subscriptions, in the order of their registration."""

    def __init__(self) -> None:
        self._bodies: dict[Id, tuple[int, bytes]] = {}
        self._ids: dict[int, Id] = {}
        self._numbers: list[int] = []  # in order, some of them gone
        self._next = 1
        self._expiries: dict[Id, int] = {}
        self._soonest: int | None = None
        self._asked = True  # whether `_soonest` holds

    @property
    def soonest(self) -> int | None:
        """When the next of them expires."""
        if not self._asked:
            self._soonest, self._asked = min(self._expiries.values(), default=None), True
        return self._soonest

    def expired(self, clock: int) -> list[Id]:
        """Those whose time is over."""
        return [id for id, expires in self._expiries.items() if expires <= clock]

    def __len__(self) -> int:
        return len(self._bodies)

    def __contains__(self, id: Id) -> bool:
        return id in self._bodies

    def put(self, body: Json) -> None:
        """File a subscription in its JSON form; one with the same id is replaced and keeps its place."""
        id = body["id"]
        number = self._bodies[id][0] if id in self._bodies else self._next
        if number == self._next:
            self._next += 1
            self._ids[number] = id
            self._numbers.append(number)
        self._bodies[id] = number, msgspec.json.encode(body)
        self._asked &= self._expiries.pop(id, None) is None and body.get("expires") is None
        if body.get("expires") is not None:
            self._expiries[id] = body["expires"]

    def move(self, id: Id, line: Json) -> None:
        """Write another place into a body."""
        body, move = self.get(id), move_from_json(line)
        if body is not None:
            place = (
                {"lon": move.lon, "lat": move.lat} if move.region is None else {"region": region_to_json(move.region)}
            )
            self.put({**body, **place})

    def remove(self, id: Id) -> None:
        """Forget one."""
        found = self._bodies.pop(id, None)
        self._asked &= self._expiries.pop(id, None) is None
        if found is not None:
            del self._ids[found[0]]
            if len(self._numbers) > 2 * len(self._ids) + 64:
                self._numbers = sorted(self._ids)

    def get(self, id: Id) -> Json | None:
        """One body."""
        found = self._bodies.get(id)
        return None if found is None else msgspec.json.decode(found[1])

    def raw(self, id: Id) -> msgspec.Raw:
        """One body as JSON."""
        return msgspec.Raw(self._bodies[id][1])

    def page(self, after: int, limit: int, prefix: str = "") -> tuple[list[msgspec.Raw], int | None]:
        """At most `limit` bodies whose numbers are larger, of ids with this prefix; and the number to go on after."""
        found: list[msgspec.Raw] = []
        for at in range(bisect_right(self._numbers, after), len(self._numbers)):
            number = self._numbers[at]
            id = self._ids.get(number)
            if id is None or not str(id).startswith(prefix):
                continue
            if len(found) == limit:
                return found, after
            found.append(self.raw(id))
            after = number
        return found, None

    def count(self, prefix: str) -> int:
        """How many ids have this prefix."""
        return sum(1 for id in self._bodies if str(id).startswith(prefix)) if prefix else len(self)

    def named(self, text: str) -> Id | None:
        """The id that stands in an address: a string, or a whole number."""
        return named(text, self._bodies)

    def all(self) -> Iterator[bytes]:
        """Every body as JSON."""
        return (self._bodies[id][1] for id in self._ids.values())


def named(text: str, among: Any) -> Id | None:
    """`text`, or the number that it spells, if it is `among` the ids."""
    if text in among:
        return text
    number = spelled(text)
    return number if number in among else None


def spelled(text: str) -> int | None:
    """The whole number of 64 bits that a text spells as JSON does, or None."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20 and str(int(text)) == text):
        return None
    return int(text)


class Bodies:
    """Both, following the events."""

    def __init__(self, window: Window | None) -> None:
        self.messages = Messages(window)
        self.subscriptions = Subscriptions()

    def follow(self, outcome: Outcome) -> None:
        """File what an event brought, and forget what it took."""
        run = outcome.run
        if run.is_messages:
            refused = {reject.row for reject in (*outcome.rejects, *outcome.late)}
            self.messages.add(run.content, refused)
        else:
            for row in outcome.done:
                self.take(run.content[row])
        for id, _ in outcome.ended:
            self.subscriptions.remove(id)

    def take(self, line: Json) -> None:
        """File what an event line says, once it has taken effect; a subscription is in the form that is logged."""
        if line["event"] == "subscribe":
            self.subscriptions.put(subscription_of(line))
        elif line["event"] == "move":
            self.subscriptions.move(line["id"], line)
        elif line["event"] == "unsubscribe":
            self.subscriptions.remove(line["id"])
        elif line["event"] == "update":
            self.messages.add(Forms([message_from_json(message_of(line))]).to_table(), set())
        elif line["event"] == "retract":
            self.messages.remove(line["id"])
        elif line["event"] == "advance":
            self.messages.advance(line["ts"])
