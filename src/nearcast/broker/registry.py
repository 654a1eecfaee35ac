"""Who is subscribed: subscription id -> number -> kind and slot, and when each one ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from nearcast.columns.arena import Array, Ints, Longs, State, with_room
from nearcast.columns.ids import Ids, id_bytes, id_type
from nearcast.columns.times import FOREVER
from nearcast.errors import UnknownId
from nearcast.model.kinds import Kind
from nearcast.window.expiries import ExpiryHeap


def unknown(id: object) -> UnknownId:
    """What is raised, or said of a row, where nobody has the id."""
    return UnknownId("id", id, "must be the id of a subscription")


def ranks_of(parts: Sequence[Longs]) -> list[Longs]:
    """For the rows of every part, their places in the order of all rows."""
    if len(parts) < 2:
        return [np.argsort(np.argsort(rows)) for rows in parts]
    rows = np.concatenate(parts)
    ranks = np.empty(rows.size, dtype=np.int64)
    ranks[np.argsort(rows)] = np.arange(rows.size)
    return np.split(ranks, np.cumsum([part.size for part in parts])[:-1])


class Registry:
    """All subscriptions of a broker by number; each has a `Kind` and a slot in its table."""

    def __init__(self) -> None:
        self.ids = Ids()
        self._kinds = np.zeros(0, dtype=np.int8)
        self._slots = np.zeros(0, dtype=np.int32)
        self._serials = np.zeros(
            0, dtype=np.int64
        )  # of the registration; tells an expiry of a subscription that is gone
        self._next_serial = 1
        self._expiries = ExpiryHeap()

    def __len__(self) -> int:
        return len(self.ids.keys)

    def find(self, subscription_id: object) -> int:
        """Number of a subscription, or -1."""
        return self.ids.find(subscription_id)

    def find_many(self, ids: pa.Array) -> Ints:
        """Numbers of subscriptions, -1 where there is none; ids are strings or integers, null finds nobody."""
        if self.ids.type != ("integer" if pa.types.is_integer(ids.type) else "string"):
            return np.full(len(ids), -1, dtype=np.int32)
        if not ids.null_count:
            return self.ids.keys.find_many(*id_bytes(ids))
        given = ids.is_valid().to_numpy(zero_copy_only=False)
        numbers = np.full(len(ids), -1, dtype=np.int32)
        numbers[given] = self.ids.keys.find_many(*id_bytes(ids.drop_null()))
        return numbers

    def find_all(self, ids: Sequence[str | int]) -> Ints:
        """The same for plain ids, of whatever type each is."""
        numbers = np.full(len(ids), -1, dtype=np.int32)
        fitting = [at for at, id in enumerate(ids) if id_type(id) == self.ids.type]
        if fitting:
            numbers[fitting] = self.find_many(pa.array([ids[at] for at in fitting]))
        return numbers

    def add(self, ids: pa.Array, kind: Kind, ranks: Longs | None = None) -> Ints:
        """Numbers for new ids; `place` must follow.

        `ranks` has their places among all that are registered together, kind by kind; `pass_ranks` ends it.
        """
        self.ids.type = self.ids.type or ("integer" if pa.types.is_integer(ids.type) else "string")
        numbers = self.ids.add_many(id_bytes(ids))
        capacity = self.ids.keys.capacity
        self._kinds, self._slots = with_room(self._kinds, capacity), with_room(self._slots, capacity)
        self._serials = with_room(self._serials, capacity)
        self._kinds[numbers] = kind
        if ranks is not None:
            self._serials[numbers] = self._next_serial + ranks
            return numbers
        self._serials[numbers] = np.arange(self._next_serial, self._next_serial + numbers.size)
        self._next_serial += numbers.size
        return numbers

    def pass_ranks(self, n: int) -> None:
        """This number of ids were registered together."""
        self._next_serial += n

    def place(self, numbers: Ints, slots: Ints, expires: Longs) -> None:
        """Remember the slots of new subscriptions and when they end."""
        self._slots[numbers] = slots
        ending = expires != FOREVER
        if ending.any():
            self._expiries.push(expires[ending], self._serials[numbers[ending]], numbers[ending])

    def where(self, number: int) -> tuple[Kind, int]:
        """Kind and slot of a subscription."""
        return Kind(self._kinds[number]), int(self._slots[number])

    def places(self, numbers: Ints) -> tuple[Array, Ints]:
        """Kinds and slots of many subscriptions; -1 is nobody's number, and what stands there means nothing."""
        if not self._kinds.size:
            return np.zeros(numbers.size, dtype=np.int8), np.zeros(numbers.size, dtype=np.int32)
        return self._kinds[numbers], self._slots[numbers]

    def by_kind(self, numbers: Ints) -> list[tuple[Kind, Ints]]:
        """The slots of these subscriptions, kind by kind."""
        kinds = self._kinds[numbers]
        return [(Kind(kind), self._slots[numbers[kinds == kind]]) for kind in np.unique(kinds)]

    def in_order(self) -> Ints:
        """The numbers of all subscriptions, in the order of their registration."""
        return self.ordered(self.ids.keys.numbers())

    def ordered(self, numbers: Ints) -> Ints:
        """These subscriptions in the order of their registration."""
        ordered: Ints = numbers[np.argsort(self._serials[numbers])]
        return ordered

    def ended(self, clock: int) -> Ints:
        """Numbers of the subscriptions whose time is over; they are told once."""
        serials, numbers = self._expiries.pop_until(clock)
        if not numbers.size:
            return numbers
        still: Ints = numbers[self._serials[numbers] == serials]
        return still

    def remove(self, numbers: Ints) -> None:
        """Forget subscriptions."""
        self._serials[numbers] = 0
        self.ids.keys.free_many(numbers)
        if len(self._expiries) > 2 * len(self) + 1024:
            self._expiries.keep(lambda serials, them: self._serials[them] == serials)

    @property
    def nbytes(self) -> int:
        return self.ids.nbytes + self._kinds.nbytes + self._slots.nbytes + self._serials.nbytes + self._expiries.nbytes

    def state(self) -> State:
        arrays: dict[str, Array] = {"kinds": self._kinds, "slots": self._slots, "serials": self._serials}
        return {"ids": self.ids.state(), "next_serial": self._next_serial, "expiries": self._expiries.state(), **arrays}

    def load(self, state: State) -> None:
        self.ids.load(state["ids"])
        self._next_serial = state["next_serial"]
        self._expiries.load(state["expiries"])
        self._kinds, self._slots, self._serials = state["kinds"], state["slots"], state["serials"]
