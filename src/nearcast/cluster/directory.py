"""Where every subscription is: events of a batch go in, the shard of each comes out; ids that end are forgotten.

An id keeps its shard for as long as it is subscribed, unless an order moves it. It is forgotten at the end of the
batch that unsubscribes it, not before: `(batch, seq)` orders the updates of a subscription, so in any one batch only
one shard may speak for it. A subscribe that the shard then rejects leaves an entry behind, which does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.cluster.schema import ORDER, PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from nearcast.columns.arena import Array, Floats, Ints, Longs, State, with_room
from nearcast.columns.ids import Ids, group_ids, id_bytes
from nearcast.columns.times import FOREVER

ANYWHERE = 0  # the shard that rejects events of ids that nobody has
NOWHERE = -1


class Entries(NamedTuple):
    """What the directory knows of some ids."""

    shards: Ints
    costs: Floats  # what each is expected to cost its shard
    ends: Longs  # when each subscription ends

    def take(self, rows: Array) -> Entries:
        """Only these."""
        return Entries(self.shards[rows], self.costs[rows], self.ends[rows])


Choose = Callable[[Array], tuple[Ints, Floats]]  # rows of a batch that subscribe new ids -> their shards and costs


class Directory:
    """Ids of subscriptions and their shards; integers and strings are different ids."""

    def __init__(self) -> None:
        self._books = {"number": _Book("integer"), "name": _Book("string")}

    def __len__(self) -> int:
        return sum(len(book) for book in self._books.values())

    def route(self, batch: pa.Table, choose: Choose, told: Array | None = None) -> tuple[Ints | None, Entries]:
        """The shard of every row of a batch, None if it has no subscription events; and what ends in it.

        `told` is what this gave when the same batch was routed before: subscriptions are where it says.
        """
        events = batch.column("event").to_numpy()
        rows = np.flatnonzero(events < PUBLISH)
        if not rows.size:
            return None, _joined([])
        shards = np.full(len(events), NOWHERE, dtype=np.int32)
        is_number = batch.column("number").is_valid().to_numpy()[rows]
        ended = []
        for name, book in self._books.items():
            mine = rows[is_number == (name == "number")]
            if mine.size:
                ids = _taken(batch, name, mine)
                book.subscribe(ids, mine, events[mine], ends_of(batch, mine), choose)
                if told is not None:
                    book.correct(ids, events[mine], told[mine])
                shards[mine] = book.shards_of(ids)
                ended.append(book.end(ids, events[mine]))
        return shards, _joined(ended)

    def add(self, batch: pa.Table, rows: Array, entries: Entries) -> None:
        """Decide where ids go before their events come; ids that are known already stay where they are."""
        is_number = batch.column("number").is_valid().to_numpy()[rows]
        for name, book in self._books.items():
            chosen = np.flatnonzero(is_number == (name == "number"))
            if chosen.size:
                book.add(_taken(batch, name, rows[chosen]), entries.take(chosen))

    def enter(self, ids: pa.Array, entries: Entries) -> None:
        """Add ids of one type, which must be new."""
        self._book(ids).add(ids, entries)

    def known(self, ids: pa.Array) -> Entries:
        """What is known of ids of one type; of an id that is unknown, that it costs 1."""
        book = self._book(ids)
        slots = book.find(ids)
        unknown = Entries(np.array([NOWHERE], np.int32), np.ones(1), np.array([FOREVER]))
        return _joined([unknown, Entries(book.shards, book.costs, book.ends)]).take(slots + 1)

    def _book(self, ids: pa.Array) -> _Book:
        return self._books["number" if pa.types.is_integer(ids.type) else "name"]

    def forget_ended(self, clock: int) -> Entries:
        """Forget ids whose subscriptions have ended by themselves; returns what is forgotten."""
        gone = []
        for book in self._books.values():
            slots = book.ids.keys.numbers()
            gone.append(book.forget(slots[book.ends[slots] <= clock]))
        return _joined(gone)

    def held(self) -> Iterator[tuple[str, Ints, Entries]]:
        """All entries: the kind of id, their numbers, and what is known."""
        for name, book in self._books.items():
            slots = book.ids.keys.numbers()
            yield name, slots, book.entries(slots)

    def ids(self, name: str, slots: Ints) -> pa.Array:
        """The ids behind numbers that `held` gave."""
        return self._books[name].ids.to_arrow(slots)

    def place(self, name: str, slots: Ints, shards: Ints) -> None:
        """Put ids into other shards."""
        self._books[name].shards[slots] = shards

    def follow(self, order: pa.Table) -> tuple[Entries, Ints]:
        """Put ids where an order says; returns what they were, and their new shards."""
        before, takers = [], [np.zeros(0, np.int32)]
        for name, book in self._books.items():
            chosen = order.filter(order.column(name).is_valid())
            slots = book.find(chosen.column(name).combine_chunks())
            known = slots >= 0
            assert (book.shards[slots[known]] == chosen.column("giver").to_numpy()[known]).all(), "givers must hold it"
            before.append(book.entries(slots[known]))
            takers.append(chosen.column("taker").to_numpy()[known])
            book.shards[slots[known]] = takers[-1]
        return _joined(before), np.concatenate(takers)

    def state(self) -> State:
        """All there is to keep."""
        return {name: book.state() for name, book in self._books.items()}

    def load(self, state: State) -> None:
        """Become what `state` says."""
        for name, book in self._books.items():
            book.load(state[name])


def order_of(ids: dict[str, pa.Array], givers: dict[str, Ints], takers: dict[str, Ints]) -> pa.Table:
    """An order to move ids, given by kind of id."""
    parts = []
    for name, values in ids.items():
        columns = {column.name: pa.nulls(len(values), column.type) for column in ORDER}
        columns |= {name: values, "giver": pa.array(givers[name]), "taker": pa.array(takers[name])}
        parts.append(pa.table(columns, schema=ORDER))
    return pa.concat_tables(parts)


class _Book:
    """The entries of ids of one type, by slot."""

    def __init__(self, type_: str) -> None:
        self.ids = Ids()
        self.ids.type = type_
        self.shards = np.zeros(0, dtype=np.int32)
        self.costs = np.zeros(0)
        self.ends = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.ids.keys)

    def find(self, ids: pa.Array) -> Ints:
        return self.ids.keys.find_many(*id_bytes(ids))

    def entries(self, slots: Ints) -> Entries:
        return Entries(self.shards[slots], self.costs[slots], self.ends[slots])

    def add(self, ids: pa.Array, entries: Entries) -> None:
        """The first entry of every id that has none yet."""
        new = np.flatnonzero(self.find(ids) < 0)
        if not new.size:
            return
        new = new[np.unique(group_ids(id_bytes(ids.take(pa.array(new)))), return_index=True)[1]]
        slots = self.ids.add_many(id_bytes(ids.take(pa.array(new))))
        capacity = self.ids.keys.capacity
        self.shards, self.costs = with_room(self.shards, capacity), with_room(self.costs, capacity)
        self.ends = with_room(self.ends, capacity)
        self.shards[slots], self.costs[slots], self.ends[slots] = entries.take(new)

    def subscribe(self, ids: pa.Array, rows: Array, events: Array, ends: Longs, choose: Choose) -> None:
        """Enter new ids; one that is known may now end later."""
        new = np.flatnonzero((self.find(ids) < 0) & (events == SUBSCRIBE))
        if new.size:
            first = np.sort(new[np.unique(group_ids(id_bytes(ids.take(pa.array(new)))), return_index=True)[1]])
            self.add(ids.take(pa.array(first)), Entries(*choose(rows[first]), ends[first]))
        subscribes = events == SUBSCRIBE
        np.maximum.at(self.ends, self.find(ids)[subscribes], ends[subscribes])

    def correct(self, ids: pa.Array, events: Array, told: Array) -> None:
        """Subscriptions are where they were sent, wherever an older directory had them."""
        subscribes = events == SUBSCRIBE
        self.shards[self.find(ids)[subscribes]] = told[subscribes]

    def shards_of(self, ids: pa.Array) -> Ints:
        """Where events of these ids go."""
        slots = self.find(ids)
        shards = np.full(slots.size, ANYWHERE, dtype=np.int32)
        shards[slots >= 0] = self.shards[slots[slots >= 0]]
        return shards

    def end(self, ids: pa.Array, events: Array) -> Entries:
        """Forget ids of whom the last event is an unsubscribe."""
        slots = self.find(ids)
        backwards = np.flatnonzero(slots >= 0)[::-1]
        mentioned, last = np.unique(slots[backwards], return_index=True)
        return self.forget(mentioned[events[backwards[last]] == UNSUBSCRIBE])

    def forget(self, slots: Array) -> Entries:
        gone = slots.astype(np.int32)
        entries = self.entries(gone)
        self.ids.keys.free_many(gone)
        return entries

    def state(self) -> State:
        return {"ids": self.ids.state(), "shards": self.shards, "costs": self.costs, "ends": self.ends}

    def load(self, state: State) -> None:
        self.ids.load(state["ids"])
        self.shards, self.costs, self.ends = state["shards"], state["costs"], state["ends"]


def ends_of(batch: pa.Table, rows: Array) -> Longs:
    """When the subscriptions of these subscribe events end."""
    ends = batch.column("expires").take(pa.array(rows)).fill_null(FOREVER)
    return ends.to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def _taken(batch: pa.Table, name: str, rows: Array) -> pa.Array:
    return batch.column(name).take(pa.array(rows)).combine_chunks()


def _joined(parts: list[Entries]) -> Entries:
    none = Entries(np.zeros(0, np.int32), np.zeros(0), np.zeros(0, np.int64))
    return Entries(*(np.concatenate(columns) for columns in zip(none, *parts, strict=True)))
