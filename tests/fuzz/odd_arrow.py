"""Odd Arrow and odd objects at every door of a broker: rejects, `InvalidInput` and nothing else, and nothing lost.

Two brokers see the same. One is given tables of odd columns; its twin the same rows one by one, as plain mappings whose
values Arrow itself has read. Both must refuse the same rows for the same fields and tell the same updates. Columns that
no message has are left out for the twin: they must not matter.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from odd_values import BrokenMapping, Raises, broken_off, odd_values

import nearcast as nc
from fuzz.odd_arrays import odd_array
from nearcast.model.checks import is_a

STEPS = 12
MESSAGE = ("id", "lon", "lat", "text", "keywords", "ts", "expires", "fields")
EXTRA = (
    "words",
    "counts",
    "spelled",
    "type",
    "geometry",
    "properties",
    "row",
    "rows",
    "sequence",
    "event",
    "",
    "é",
    "kind",
)
SIDES = ("min_lon", "min_lat", "max_lon", "max_lat")

Table = pa.Table | pa.RecordBatch


_MILLISECONDS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}


class Unreadable:
    """What stands for a value that Arrow cannot hand to Python."""


class Round:
    """Two brokers, and what is given to them."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.named = self.rng.choice([str, int])  # the type of all ids
        windows = [None, nc.Window(count=30), nc.Window(age=1e6), nc.Window(count=20, age=50, max_ahead=1e9)]
        window, metric = self.rng.choice(windows), self.rng.choice(["euclidean", "haversine"])
        self.broker, self.twin = (nc.Broker(nc.Space((0, 0, 10, 10), metric), window) for _ in range(2))
        self.has_window = window is not None
        self.n_ids = 0
        for broker in (self.broker, self.twin):
            broker.subscribe_many([(self.named(n), query) for n, query in enumerate(self._queries())])
            broker.publish({"id": self.named(0), "lon": 1, "lat": 1, "text": "fire", "ts": 1})

    def _queries(self) -> list[Any]:
        kept = [nc.TopK(1, 1, "fire smoke", 3)] if self.has_window else []
        found = [nc.Within(nc.Box(-99, -80, 99, 80), "fire OR straße"), nc.Similar(1, 1, ["fire"], 0.9, 0.1)]
        asks = nc.Within(nc.Box(-99, -80, 99, 80), "fire", where="price < 2 OR HAS kind")
        return [*found, asks, nc.Nearest(2, 2, "fire", 3), nc.Nearest(2, 2, "fire smoke", 2, match="any"), *kept]

    def new_id(self) -> Any:
        self.n_ids += 1
        return self.named(1000 + self.n_ids)

    # Tables of good rows

    def messages(self, n: int) -> dict[str, list[Any]]:
        texts = [self.rng.choice(["fire", "smoke fire", "Straße", "", None]) for _ in range(n)]
        return {
            "id": [self.new_id() for _ in range(n)],
            "lon": [self.rng.choice([0.0, 1.5, 9.0]) for _ in range(n)],
            "lat": [self.rng.choice([0.0, 1.5, 9.0]) for _ in range(n)],
            "text": texts,
            "keywords": [["fire", "SMOKE"] if text is None else None for text in texts],
            "ts": [self.rng.choice([None, 5, 70, 10_000]) for _ in range(n)],
            "expires": [self.rng.choice([None, None, 2**62, 90_000]) for _ in range(n)],
            "fields": [self.rng.choice([None, {"price": 1.5, "tags": ["a", "b"]}, {"kind": "a"}]) for _ in range(n)],
        }

    def subscriptions(self, n: int) -> dict[str, list[Any]]:
        kind = self.rng.choice(["within", "similar", "nearest", "topk"])
        given: dict[str, list[Any]] = {"id": [self.new_id() for _ in range(n)], "kind": [kind] * n}
        given["keywords"] = [self.rng.choice(["fire", "fire smoke", "straße"]) for _ in range(n)]
        own: dict[str, list[Any]] = {"lon": [1.0] * n, "lat": [2.0] * n}
        if kind == "within":
            sides = {"min_lon": [0.0] * n, "min_lat": [0.0] * n, "max_lon": [5.0] * n, "max_lat": [5.0] * n}
            own = sides if self.rng.random() < 0.5 else {"region": ["[0, 0, 5, 5]"] * n}
        elif kind == "similar":
            own |= {"delta": [0.5] * n, "tau": [0.1] * n, "measure": ["dice"] * n}
        elif kind == "topk":
            own |= {"k": [2] * n, "alpha": [0.5] * n}
        else:
            own |= {"k": [2] * n, "match": ["any"] * n}
        return given | own | {"backfill": [True] * n, "expires": [None] * n, "where": ["kind = 'a'"] * n}

    def moves(self, n: int) -> dict[str, list[Any]]:
        given: dict[str, list[Any]] = {"id": [self.named(self.rng.randint(0, 6)) for _ in range(n)]}
        if self.rng.random() < 0.5:
            return given | {"lon": [self.rng.choice([0.0, 3.0]) for _ in range(n)], "lat": [1.0] * n}
        return given | {side: [float(i)] * n for i, side in enumerate(SIDES)}

    # The same with odd columns

    def table(self, given: dict[str, list[Any]], names: tuple[str, ...]) -> tuple[Table, list[dict[str, Any]]]:
        """A table of these rows, some columns odd; and its rows, with the columns of these names."""
        n = len(given["id"])
        columns: dict[str, Any] = {name: pa.array(values) for name, values in given.items()}
        for _ in range(self.rng.choice([0, 1, 1, 2])):
            columns[self.rng.choice([*columns])] = odd_array(self.rng, n)
        for _ in range(self.rng.choice([0, 1, 2])):
            columns[self.rng.choice(EXTRA)] = odd_array(self.rng, n)
        used = [name for name in columns if not names or name in names]
        values = [[_value(name, columns[name], row) for row in range(n)] for name in used]
        rows = [dict(zip(used, row, strict=True)) for row in zip(*values, strict=True)]
        return self.formed(columns), rows

    def formed(self, columns: dict[str, Any]) -> Table:
        """A table or a batch, in one piece or several, with or without metadata."""
        made = pa.Table.from_arrays([*columns.values()], names=[*columns])
        form = self.rng.choice(["table", "table", "pieces", "batch", "metadata", "empty pieces"])
        if form == "batch":
            return pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])
        if form == "metadata":
            return made.replace_schema_metadata({"pandas": "{}", b"\xff": b"\xff"})
        if form == "pieces":
            cut = self.rng.randint(0, made.num_rows)
            return pa.concat_tables([made.slice(0, cut), made.slice(cut)])
        return pa.concat_tables([made.slice(0, 0), made, made.slice(0, 0)]) if form == "empty pieces" else made

    # Steps

    def compare(self, call: str, table: Any, rows: Any) -> None:
        """Both brokers refuse the same and tell the same."""
        told = getattr(self.broker, call)(table)
        types = table.schema.types if isinstance(table, pa.Table | pa.RecordBatch) else [table.type]
        if any(_is_wild(kind) for kind in types):  # may be refused where Arrow itself could read it
            self.twin = self.broker
        if self.twin is self.broker:
            return
        expected = getattr(self.twin, call)(rows)
        refused = [(reject.row, reject.field) for reject in told.rejects]
        assert refused == [(reject.row, reject.field) for reject in expected.rejects], (call, refused, expected.rejects)
        assert [late.row for late in told.late] == [late.row for late in expected.late], call
        assert sorted(map(repr, told)) == sorted(map(repr, expected)), call

    def publish(self) -> None:
        self.compare("publish", *self.table(self.messages(self.rng.randint(0, 6)), MESSAGE))

    def subscribe_many(self) -> None:
        self.compare("subscribe_many", *self.table(self.subscriptions(self.rng.randint(0, 4)), ()))

    def move_many(self) -> None:
        self.compare("move_many", *self.table(self.moves(self.rng.randint(0, 4)), ()))

    def unsubscribe_many(self) -> None:
        given = {"id": [self.named(self.rng.randint(0, 6)) for _ in range(self.rng.randint(0, 2))]}
        table, rows = self.table(given, ("id",))
        if self.rng.random() < 0.5:
            ids = table.column(table.schema.get_field_index("id"))
            table, rows = ids, [row["id"] for row in rows]
        self.compare("unsubscribe_many", table, rows)

    def export(self) -> None:
        asked = [odd_array(self.rng, 3), odd_values(), [self.named(0), 2**70], {2**70}]
        copies = self.broker.export_subscriptions(self.rng.choice(asked))
        other = nc.Broker(self.broker.space, self.broker.window)
        if copies:
            kind = self.rng.choice([*copies])
            spoilt = dict(copies[kind])
            name = self.rng.choice([*spoilt])
            spoilt[name] = self.rng.choice(odd_values())
            self.refused(lambda: other.adopt({**copies, kind: spoilt}), f"adopt with an odd {name}")
        odd = self.rng.choice(odd_values())
        self.refused(lambda: other.adopt(5 if type(odd) is dict and not odd else odd), "adopt of an odd value")
        assert other.stats()["subscriptions"]["all"] == 0
        other.adopt(copies)

    def refused(self, call: Callable[[], Any], what: str) -> None:
        try:
            call()
        except nc.InvalidInput:
            return
        raise AssertionError(f"{what} was taken")

    def objects(self) -> None:
        """Odd objects among good ones: the good ones arrive, and nothing else happens."""
        calls: list[tuple[str, Callable[[], dict[str, list[Any]]]]] = [
            ("publish", lambda: self.messages(4)),
            ("subscribe_many", lambda: self.subscriptions(4)),
            ("move_many", lambda: self.moves(4)),
        ]
        call, make = self.rng.choice(calls)
        given = make()
        rows = [dict(zip(given, row, strict=True)) for row in zip(*given.values(), strict=True)]
        odd: list[Any] = self.rng.choices(odd_values(), k=3)
        for broken in ("getitem", "iter", "keys", "repr"):
            odd.append(BrokenMapping(rows[0], broken))
            values = [value for value in odd_values() if not is_a(value, Iterator)]
            odd.append(rows[0] | {self.rng.choice([*given]): self.rng.choice(values)})
        twin, self.twin = self.twin, self.broker  # some of the odd rows may be taken: each broker goes its own way
        told = getattr(self.broker, call)([*rows[1:], *odd])
        if twin is self.broker:
            return
        expected = getattr(twin, call)(rows[1:])
        refused = [(reject.row, reject.field) for reject in told.rejects if reject.row < len(rows) - 1]
        assert refused == [(reject.row, reject.field) for reject in expected.rejects], call
        assert all(reject.row < len(rows) - 1 + len(odd) for reject in told.rejects)

    def generators(self) -> None:
        """A generator that breaks off: its exception comes out, and nothing of the batch is there."""
        before = self.state()
        good = {"id": self.new_id(), "lon": 1.0, "lat": 1.0, "text": "fire", "ts": 80}
        for call in ("publish", "subscribe_many", "move_many", "unsubscribe_many", "export_subscriptions"):
            try:
                getattr(self.broker, call)(broken_off(good, good))
            except Raises:
                continue
            raise AssertionError(f"{call} swallowed what its generator raised")
        assert self.state() == before

    def single(self) -> None:
        """Odd values in calls that name one thing: `InvalidInput`, or an answer."""
        broker, id = self.broker, self.named(0)
        for value in self.rng.sample(odd_values(), 6):
            for call in (
                lambda value=value: broker.results(value),
                lambda value=value: broker.explain(id, value),
                lambda value=value: broker.explain(value, value),
                lambda value=value: broker.unsubscribe(value) if value not in self.known() else None,
                lambda value=value: broker.move(value, value, value),
                lambda value=value: broker.move(id, region=value),
                lambda value=value: broker.subscribe(value, value, value),
                lambda value=value: broker.publish({"id": self.new_id(), "lon": value, "lat": value, "text": value}),
                lambda value=value: broker.publish(value),
                lambda value=value: broker.subscribe_many(value),
                lambda value=value: broker.move_many(value),
                lambda value=value: broker.export_subscriptions(value),
                lambda value=value: broker.reweigh(value),
                lambda value=value: broker.adopt(value),
            ):  # fmt: skip
                try:
                    call()
                except nc.NearcastError:
                    pass
                except Raises:
                    assert is_a(value, Iterator), "only what a caller's own iterator raises is passed on"
        self.twin = broker

    def known(self) -> Any:
        return _Known(self.broker)

    def state(self) -> Any:
        stats = self.broker.stats()
        return stats["subscriptions"], stats["messages"], stats["clock"], stats["words"]

    def step(self) -> None:
        """One call, then proof that the broker still answers."""
        doors = [self.publish, self.publish, self.subscribe_many, self.move_many, self.unsubscribe_many, self.export]
        doors += [self.objects, self.generators, self.single] if self.rng.random() < 0.3 else []
        self.rng.choice(doors)()
        good = {"id": self.new_id(), "lon": 1.0, "lat": 1.0, "text": "fire", "expires": 2**62}
        told = self.broker.publish(good)
        if self.twin is not self.broker:
            assert sorted(map(repr, told)) == sorted(map(repr, self.twin.publish(good)))
        assert self.broker.stats()["messages"] == self.twin.stats()["messages"]
        for id in self.broker.subscription_ids.to_pylist():
            assert self.broker.results(id) == self.twin.results(id), id


class _Known:
    """The ids of a broker, which an odd value may be asked for without harm."""

    def __init__(self, broker: nc.Broker) -> None:
        self._ids = set(broker.subscription_ids.to_pylist())

    def __contains__(self, value: Any) -> bool:
        return type(value) in (str, int) and value in self._ids


def _is_wild(kind: pa.DataType, top: bool = True) -> bool:
    """Has a type runs, unions or extensions inside another type?"""
    if isinstance(kind, pa.BaseExtensionType):
        return not top or _is_wild(kind.storage_type, False)
    if pa.types.is_dictionary(kind):
        return _is_wild(kind.value_type, False)
    if pa.types.is_run_end_encoded(kind):
        return not top or _is_wild(kind.value_type, False)
    if pa.types.is_union(kind) and not top:
        return True
    return any(_is_wild(kind.field(i).type, False) for i in range(kind.num_fields))


def _value(name: str, column: pa.Array, row: int) -> Any:
    """A value as Python has it; a time past the calendar, where one is asked for, in milliseconds."""
    try:
        return column[row].as_py()
    except Exception:
        kind = column.type
        if name in ("ts", "expires") and (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
            days, unit = pa.types.is_date32(kind), getattr(kind, "unit", "ms")
            times, parts = (86_400_000, 1) if days else _MILLISECONDS[unit]
            return column[row].value * times // parts
        return Unreadable()


def odd_arrow_round(seed: int) -> None:
    """Give a broker odd Arrow and odd objects, drawn from this seed; raises AssertionError if it is not up to them."""
    played = Round(seed)
    for number in range(STEPS):
        try:
            played.step()
        except Exception as error:
            raise AssertionError(f"seed {seed}, step {number}: {type(error).__name__}: {error}") from error
    played.broker.check()
