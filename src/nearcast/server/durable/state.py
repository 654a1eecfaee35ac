"""All that follows from the log, but for the broker: bodies, updates, answers. It lives on the event loop."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from nearcast.server.durable.answers import Answers, Remembered
from nearcast.server.durable.apply import Outcome
from nearcast.server.durable.bodies import Bodies
from nearcast.server.durable.operations import Json
from nearcast.server.durable.updates import PastUpdates, Told
from nearcast.window.window import Window

_TABLES, _VALUES = "messages.arrow", "state.json"


class UnknownEpoch(LookupError):
    """A cursor of another history."""


class _Values(msgspec.Struct):
    event: int
    clock: int | None
    subscriptions: list[Any]
    answers: list[tuple[str, Remembered]]
    n_tables: int


class State:
    """What the server knows beside the broker, as of `event`."""

    def __init__(self, window: Window | None, updates: PastUpdates | None) -> None:
        self.bodies = Bodies(window)
        self.updates = updates
        self.answers = Answers()
        self.event = 0
        self.epoch = ""

    def follow(self, outcome: Outcome) -> None:
        """Take in what an event did."""
        self.bodies.follow(outcome)
        self.answers.follow(outcome, self.epoch)
        if self.updates is not None:
            self.updates.append(Told(outcome.event, outcome.updates, outcome.ended))
        self.event = outcome.event

    def cursor(self, event: int | None = None) -> str:
        """The cursor after an event; now, unless another is named."""
        return f"{self.epoch}.{self.event if event is None else event}"

    def event_of(self, cursor: str) -> int:
        """The event of a cursor.

        Raises
        ------
        UnknownEpoch
            If it is none of this history.
        """
        epoch, _, number = cursor.partition(".")
        if epoch != self.epoch or not number.isdecimal() or not number.isascii() or len(number) > 18:
            raise UnknownEpoch(cursor)
        if int(number) > self.event:
            raise UnknownEpoch(cursor)
        return int(number)

    def write(self, folder: Path) -> None:
        """Write bodies and answers for a snapshot."""
        tables = list(self.bodies.messages.to_tables())
        for number, table in enumerate(tables):
            with (
                pa.OSFile(str(folder / f"{number}-{_TABLES}"), "wb") as file,
                pa.ipc.new_file(file, table.schema) as to,
            ):
                to.write_table(table)
        subscriptions: list[Any] = [msgspec.Raw(body) for body in self.bodies.subscriptions.all()]
        clock = self.bodies.messages.clock
        values = _Values(self.event, clock, subscriptions, self.answers.state(), len(tables))
        (folder / _VALUES).write_bytes(msgspec.json.encode(values))
        for path in folder.iterdir():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)

    def read(self, folder: Path) -> None:
        """Take over what `write` wrote."""
        values = msgspec.json.decode((folder / _VALUES).read_bytes(), type=_Values)
        for number in range(values.n_tables):
            with pa.OSFile(str(folder / f"{number}-{_TABLES}"), "rb") as file:
                self.bodies.messages.add(pa.ipc.open_file(file).read_all(), set())
        body: Json
        for body in values.subscriptions:
            self.bodies.subscriptions.put(body)
        if values.clock is not None:
            self.bodies.messages.advance(values.clock)
        self.answers.load(values.answers)
        self.event = values.event


def new_epoch() -> str:
    """A name for a history."""
    return secrets.token_hex(5)
