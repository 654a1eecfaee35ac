"""A shard: a broker with one part of the subscriptions; batches of events go in, updates, rejects and counts come out.

Plain Python, nothing of Spark. Every shard sees every message and keeps only its own subscriptions, so sequence and
clock are the same in all of them. What is the same in all is told by one: shard 0 speaks for the messages and for rows
that could not be read, the owner of a subscription for its events.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

import nearcast as nc
from nearcast.cluster.schema import MESSAGE_COLUMNS, MOVE, PUBLISH, REFUSED, SUBSCRIBE
from nearcast.cluster.specs import specs_of
from nearcast.columns.arena import State
from nearcast.columns.decode_subscriptions import Rules, as_subscription, check_subscription
from nearcast.columns.tokens import SpelledMessages
from nearcast.errors import InvalidInput

SPOKESMAN = 0  # the shard that reports what every shard sees alike
PIECE = 100_000  # updates that are held at a time, or somewhat more
_FIRST_ROWS, _MOST_ROWS = 1_000, 10_000  # events given to the broker at once: at the start of a batch, and at most

_TYPE_RULE = {
    "number": "must be an integer like the ids before it",
    "name": "must be a string like the ids before it",
}


Keep = Callable[[pa.Table], None]  # takes updates, piece after piece


@dataclass(slots=True)
class Outcome:
    """What one batch did in one shard, but for its updates."""

    rejects: list[dict[str, Any]] = field(default_factory=list)
    late: list[dict[str, Any]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    n_rows: int = 0  # of the batch, whoever speaks for them


class Shard:
    """One part of the subscriptions, and the broker that answers them.

    Parameters
    ----------
    index
        Which part.
    broker
        Empty, or restored.
    subscription_ids
        Whether the ids of subscriptions are a ``"number"`` or a ``"name"``, as the first one had it that was accepted,
        in whichever shard; None before the first.
    """

    def __init__(
        self,
        index: int,
        broker: nc.Broker,
        subscription_ids: str | None = None,
    ) -> None:
        self.index = index
        self.broker = broker
        self.subscription_ids = subscription_ids

    def apply(self, batch: pa.Table, shards: np.ndarray | None, keep: Keep) -> Outcome:
        """Have the broker process the events of a batch (`schema.BATCH`), in their order.

        `shards` says where each subscription event goes; None if there are none. `keep` is given the updates as they
        come, about `PIECE` at once at most: the more there are, the fewer events the broker is given at a time. The
        same batch is always cut the same way.
        """
        outcome = Outcome(n_rows=batch.num_rows)
        events = batch.column("event").to_numpy()
        refused = self._check_ids(batch, events)
        mine = np.full(len(events), self.index == SPOKESMAN)
        if shards is not None:
            mine = np.where(events < PUBLISH, shards == self.index, mine)
        outcome.counts["rows"] += int(np.count_nonzero(mine))
        for row in np.flatnonzero(mine & (events == REFUSED)):
            told = batch.slice(row, 1).to_pylist()[0]
            outcome.rejects.append(_refused(batch, int(row), told["field"], told["reason"]))
        for row in np.flatnonzero(mine & refused):
            error = InvalidInput("id", _id_of(batch, int(row)), _TYPE_RULE[str(self.subscription_ids)])
            outcome.rejects.append(_refused(batch, int(row), error.field, str(error)))
        todo = np.flatnonzero(~refused & ((events == PUBLISH) | (mine & (events != REFUSED))))
        at_once = _FIRST_ROWS
        for stretch in _stretches(todo, 2 * events + batch.column("number").is_valid().to_numpy()):
            at = 0
            while at < len(stretch):
                rows = stretch[at : at + at_once]
                updates = self._do(outcome, batch, int(events[rows[0]]), rows)
                if updates.num_rows:
                    keep(updates)
                at += len(rows)
                fitting = PIECE * len(rows) // max(1, updates.num_rows)
                at_once = max(1, min(fitting, 2 * at_once, _MOST_ROWS))
        return outcome

    def _check_ids(self, batch: pa.Table, events: np.ndarray) -> np.ndarray:
        """Tell which subscriptions have ids of another type than the first that is accepted, in whichever shard.

        Ids of messages are left to the broker: all shards see all messages, and refuse the same.
        """
        is_number = batch.column("number").is_valid().to_numpy()
        subscribes = events == SUBSCRIBE
        if self.subscription_ids is None:
            for row in np.flatnonzero(subscribes):
                if self._is_accepted(batch.column("spec")[int(row)].as_py()):
                    self.subscription_ids = "number" if is_number[row] else "name"
                    break
            else:
                return np.zeros(len(events), bool)
        refused: np.ndarray = subscribes & (is_number != (self.subscription_ids == "number"))
        return refused

    def _is_accepted(self, spec: str) -> bool:
        try:
            rules = Rules(self.broker.space, self.broker.window is not None, None)
            check_subscription(as_subscription(json.loads(spec)), rules)
        except InvalidInput:
            return False
        return True

    def _do(self, outcome: Outcome, batch: pa.Table, event: int, rows: np.ndarray) -> pa.Table:
        """Have the broker process events of one kind; returns the updates."""
        if event == PUBLISH:
            updates = self.broker.publish(self._messages(batch, rows))
        elif event == SUBSCRIBE:
            updates = self.broker.subscribe_many(specs_of(batch, rows))
        elif event == MOVE:
            updates = self.broker.move_many(specs_of(batch, rows))
        else:
            updates = self.broker.unsubscribe_many([_id_of(batch, int(row)) for row in rows])
        table = updates.to_arrow()
        n_added = int(np.count_nonzero(table.column("sign").to_numpy() == "+"))
        outcome.counts.update(added=n_added, removed=table.num_rows - n_added)
        if event != PUBLISH or self.index == SPOKESMAN:
            for refused, told in ((updates.rejects, outcome.rejects), (updates.late, outcome.late)):
                told += [_refused(batch, int(rows[one.row]), one.field, one.reason) for one in refused]
            outcome.counts["late"] += len(updates.late)
            n_accepted = len(rows) - len(updates.rejects) - len(updates.late)
            outcome.counts["messages" if event == PUBLISH else "events"] += n_accepted
        return table

    def give(self, ids: list[Any]) -> State:
        """Drop subscriptions, and return all that is theirs; ids that have ended meanwhile are passed over."""
        rows = self.broker.export_subscriptions(ids)
        self.broker.unsubscribe_many(ids)
        return rows

    def _messages(self, batch: pa.Table, rows: np.ndarray) -> pa.Table | SpelledMessages:
        run = batch.slice(rows[0], rows[-1] + 1 - rows[0])
        if len(rows) != run.num_rows:
            run = run.take(rows - rows[0])
        ids = run.column("name" if run.column("number")[0].as_py() is None else "number")
        # Words that were not spelled belong to a row that the broker must refuse, and say why.
        spelled = run.column("words").null_count == 0
        names = [name for name in MESSAGE_COLUMNS if not spelled or name not in ("text", "keywords")]
        table = pa.table({"id": ids} | {name: run.column(name) for name in names})
        return SpelledMessages(table, run.column("words"), run.column("counts")) if spelled else table


def _refused(batch: pa.Table, row: int, field_: str, reason: str) -> dict[str, Any]:
    """A row that was not honoured, as it is told."""
    told = batch.slice(row, 1).to_pylist()[0]
    text = told["raw"] if told["raw"] is not None else _as_json(told)
    return {"source": told["source"], "row": told["row"], "text": text, "field": field_, "reason": reason}


def _stretches(rows: np.ndarray, kinds: np.ndarray) -> Iterator[np.ndarray]:
    """Cut `rows` where the kind of event, or of id, changes."""
    yield from np.split(rows, np.flatnonzero(np.diff(kinds[rows])) + 1)


def _id_of(batch: pa.Table, row: int) -> str | int:
    number = batch.column("number")[row].as_py()
    identity: str | int = batch.column("name")[row].as_py() if number is None else number
    return identity


def _as_json(told: dict[str, Any]) -> str:
    """A message that came without its raw text, in the JSON form."""
    shown = {"id": told["name"] if told["number"] is None else told["number"]}
    shown |= {name: told[name] for name in MESSAGE_COLUMNS}
    return json.dumps({name: value for name, value in shown.items() if value is not None}, ensure_ascii=False)
