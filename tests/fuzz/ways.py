"""Ways to take a stream that must all come to the same: batches, single events, restored brokers, brokers in turns."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from contract.contenders import CONTENDERS
from strategies import Event, Setting

import nearcast as nc
from fuzz.streams import Batch
from nearcast.broker.snapshots import snapshot
from nearcast.errors import InvalidInput
from nearcast.model.codec import subscription_to_json
from nearcast.model.event import Move
from nearcast.model.message import Message
from nearcast.model.query import Subscription
from nearcast.model.update import Update

EVERYBODY = ("publish", "update", "retract", "advance", "reweigh")  # events that concern all subscriptions
_SMALL = {one.kind: one.choice for one in CONTENDERS if one.name in ("small-tree", "stamp", "small-cells", "coarse")}


class Compact(nc.Broker):
    """A broker whose indexes have small nodes, so that a few subscriptions already split, merge and rebuild them."""

    def __init__(self, *given: Any, engines: Any = None, **named: Any) -> None:
        super().__init__(*given, engines=engines or _SMALL, **named)


class Answer(NamedTuple):
    """What came of a batch."""

    updates: list[Update]
    rejects: list[tuple[int, str, str]]  # row, field and reason
    late: list[int]  # rows


def made(kind: type[nc.Broker], setting: Setting) -> nc.Broker:
    """A broker of this class in the setting."""
    like = setting.broker()
    return kind(like.space, like.window, like.parts.context.vocabulary.weights, analyzer=like.analyzer)


def single(broker: nc.Broker, event: Event) -> Answer:
    """One event by itself."""
    try:
        updates = event.happen_to(broker)
    except InvalidInput as error:
        return Answer([], [(0, error.field, str(error))], [])
    return answer_of(updates)


def answer_of(updates: Any) -> Answer:
    rejects = [(reject.row, reject.field, reject.reason) for reject in updates.rejects]
    return Answer(list(updates), rejects, [late.row for late in updates.late])


def joined(answers: list[Answer]) -> Answer:
    """The answers to the rows of a batch, given one by one."""
    return Answer(
        [update for answer in answers for update in answer.updates],
        [(row, *reject[1:]) for row, answer in enumerate(answers) for reject in answer.rejects],
        [row for row, answer in enumerate(answers) for _ in answer.late],
    )


def bulk(broker: nc.Broker, batch: Batch, form: str) -> Answer:
    """Many events in one call; messages as objects, JSON forms or an Arrow table."""
    rows = [event.arguments for event in batch.events]
    if batch.method == "update" and broker.window is None:  # refused as a whole
        return joined([single(broker, event) for event in batch.events])
    if batch.method in ("publish", "update"):
        return answer_of(getattr(broker, batch.method)(in_form([message for (message,) in rows], form)))
    if batch.method == "subscribe":
        given = [(*row, event.named["expires"]) for row, event in zip(rows, batch.events, strict=True)]
        if form == "json":
            return answer_of(broker.subscribe_many([subscription_to_json(Subscription(*row)) for row in given]))
        return answer_of(broker.subscribe_many(given))
    if batch.method == "unsubscribe":
        return answer_of(broker.unsubscribe_many([id for (id,) in rows]))
    return answer_of(
        broker.move_many([Move(*row, **event.named) for row, event in zip(rows, batch.events, strict=True)])
    )


def field_column(given: list[Any]) -> pa.Array:
    """Fields as a struct where one can hold them, else as JSON texts."""
    types: dict[str, set[type]] = {}
    for fields in given:
        for name, value in (fields or {}).items():
            types.setdefault(name, set()).add(type(value))
    try:
        if all(len(own) == 1 for own in types.values()):  # Arrow takes true for 1 beside numbers
            return pa.array(given)
    except (pa.ArrowException, OverflowError):  # whole numbers past 64 bits
        pass
    return pa.array([None if fields is None else json.dumps(fields) for fields in given], pa.string())


def in_form(messages: list[Message], form: str) -> Any:
    names = ("id", "lon", "lat", "text", "keywords", "ts", "expires", "fields")
    rows = [{name: getattr(message, name) for name in names} for message in messages]
    if form == "json":
        return [{name: value for name, value in row.items() if value is not None} for row in rows]
    if form == "arrow":
        ids = pa.int64() if isinstance(messages[0].id, int) else pa.string()
        types = (ids, pa.float64(), pa.float64(), pa.string(), pa.list_(pa.string()), pa.int64(), pa.int64())
        table = pa.Table.from_pylist(rows, pa.schema(list(zip(names[:-1], types, strict=True))))
        return table.append_column("fields", field_column([message.fields for message in messages]))
    return messages


class Whole:
    """Batches as they are."""

    def __init__(self, broker: nc.Broker, form: str = "objects") -> None:
        self.broker, self.form = broker, form

    def take(self, batch: Batch) -> Answer:
        return bulk(self.broker, batch, self.form) if batch.bulk else single(self.broker, batch.events[0])

    def results(self, id: Any) -> Any:
        return results(self.broker, id)

    def check(self) -> None:
        self.broker.check()
        self.broker.stats()


class Singles(Whole):
    """One event after another; messages ask first who would hear of them."""

    def take(self, batch: Batch) -> Answer:
        return joined([self.one(event) for event in batch.events])

    def one(self, event: Event) -> Answer:
        if event.method != "publish":
            return single(self.broker, event)
        message, heard, refused = event.arguments[0], list[Any](), list[str]()
        try:
            heard = self.broker.match(message)
        except InvalidInput as error:
            refused = [str(error)]
        answer = single(self.broker, event)
        assert [reason for _, _, reason in answer.rejects] == refused, f"match refused: {refused}"
        told = [update.subscription for update in answer.updates if update.sign == "+" and update.message == message.id]
        assert sorted(heard, key=repr) == sorted(told, key=repr), f"match said {heard}, but {told} were told"
        return answer


class Restored(Whole):
    """Stopped and restored before some batches; nothing but the file goes from one to the next."""

    def __init__(self, broker: nc.Broker, form: str, folder: Path, often: float, seed: int) -> None:
        super().__init__(broker, form)
        self._path, self._often, self._pick = folder / "broker", often, random.Random(seed)

    def take(self, batch: Batch) -> Answer:
        if self._pick.random() < self._often:
            self.broker.snapshot(self._path)
            self.broker = self.again()
        return super().take(batch)

    def again(self) -> nc.Broker:
        """The broker that was written."""
        return type(self.broker).restore(self._path)


class Shared(Restored):
    """The same with another number of threads each time."""

    def again(self) -> nc.Broker:
        return type(self.broker).restore(self._path, threads=self._pick.choice((1, 2, 3)))


class Handed:
    """Two brokers that pass subscriptions on to each other, by way of a file, and together tell all."""

    def __init__(self, brokers: list[nc.Broker], folder: Path, seed: int) -> None:
        self._brokers, self._path, self._pick = brokers, folder / "handed", random.Random(seed)
        self._owners: dict[Any, int] = {}

    def take(self, batch: Batch) -> Answer:
        if self._pick.random() < 0.3:
            self._hand_over()
        if batch.method in EVERYBODY:
            return joined([Whole(broker).take(batch) for broker in self._brokers])
        owners = [self._owners.setdefault(event.arguments[0], self._pick.randrange(2)) for event in batch.events]
        return joined([single(self._brokers[owner], event) for owner, event in zip(owners, batch.events, strict=True)])

    def _hand_over(self) -> None:
        giver = self._pick.randrange(2)
        here = self._brokers[giver].subscription_ids.to_pylist()
        ids = self._pick.sample(here, self._pick.randint(0, len(here)))
        snapshot.write(self._path, self._brokers[giver].export_subscriptions(ids))
        self._brokers[giver].unsubscribe_many(ids)
        self._brokers[1 - giver].adopt(snapshot.read(self._path))
        self._owners |= dict.fromkeys(ids, 1 - giver)

    def results(self, id: Any) -> Any:
        return results(self._brokers[self._owners.get(id, 0)], id)

    def check(self) -> None:
        for broker in self._brokers:
            broker.check()


def results(broker: nc.Broker, id: Any) -> Any:
    try:
        return broker.results(id)
    except InvalidInput:
        return None
