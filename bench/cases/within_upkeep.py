"""`Within` subscriptions that come and go: what filing them batch by batch costs, and how matching is then."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import lru_cache
from itertools import chain

import numpy as np
import pyarrow as pa

from bench.cases.messages import Stream, admit, batches
from bench.cases.within import BATCH, Delivery, Drawing, Standing
from bench.figure import Stopwatch, WrongAnswer
from nearcast import InvalidInput, SetupError
from nearcast.columns.arena import Ints
from nearcast.columns.subscription_tables import WithinTable
from nearcast.workload import datasets

_AGES = 10  # parts of a dataset, oldest first, that subscriptions are drawn from in turn
_INSERTED = 10_000  # subscriptions a batch
_PUBLISHED = 100  # messages a batch, where the longest wait counts
_PATIENCE = 2_000  # batches in which a rebuild must end


@lru_cache(maxsize=1)
def aged(drawing: Drawing, n: int) -> pa.Table:
    """`n` subscriptions drawn from the oldest messages, then from younger ones; kept for the next series of a guard."""
    try:
        messages = datasets.read(drawing.messages, columns=["lon", "lat", "text"])
    except (SetupError, InvalidInput):
        messages = Stream(drawing.messages, drawing.seed).take(drawing.n_before)
    each = messages.num_rows // _AGES
    upto = [n * age // _AGES for age in range(_AGES + 1)]
    parts = [
        drawing.drawn_from(messages.slice(age * each, each), upto[age + 1] - upto[age], drawing.seed + age)
        for age in range(_AGES)
    ]
    return pa.concat_tables(list(chain.from_iterable(parts)))


class Drifted(Standing):
    """Subscriptions in the order of the messages they are drawn from, oldest first.

    The share `built` of them is filed at once, the others in batches of 10,000, with 1,000 messages between two of
    them, so that an engine that keeps up during events can do so. What is timed is matching alone: batches of messages
    during which a subtree was being rebuilt are sent, and not timed.
    """

    def prepare(self) -> None:
        self.open()
        self.given = aged(self.drawing, self.sizes["subscriptions"])
        self.grow(self.pass_by)
        self.calm_down()

    def calm_down(self) -> None:
        """Let the engine finish what growth has caused; messages do not pay for it."""
        for _ in range(_PATIENCE):
            if not self.engine.stats().get("rebuilding"):
                return
            self.send()
        raise WrongAnswer(f"still rebuilding after {_PATIENCE * BATCH:,} messages: matching cannot be timed alone")

    def repeat(self, watch: Stopwatch) -> int:
        n_messages, published = 0, self.sizes["published"]
        for _ in range(_PATIENCE):
            self.calm_down()
            rebuilds, attempt = self.engine.stats().get("rebuilds"), Stopwatch()
            steps = admit(self.live, self.stream.space, self.stream.take(min(BATCH, published - n_messages)))
            with attempt:
                self.engine.publish(steps)
            self.live.release(steps)
            stats = self.engine.stats()
            if stats.get("rebuilding") or stats.get("rebuilds") != rebuilds:
                continue
            watch.wall_s += attempt.wall_s
            watch.cpu_s += attempt.cpu_s
            n_messages += steps.rows.size
            if n_messages >= published:
                return n_messages
        raise WrongAnswer(f"rebuilding again and again for {_PATIENCE:,} batches: matching cannot be timed alone")

    def grow(self, between: Callable[[Ints], None]) -> int:
        """File all in a new engine; `between` is handed every later batch. Returns how many came later."""
        n_built = max(1, round(self.sizes["built"] * self.given.num_rows))
        self.table = WithinTable(self.vocabulary)
        self.engine = self.make()
        self.engine.insert(self.register(iter([self.given.slice(0, n_built)])))
        for at in range(n_built, self.given.num_rows, _INSERTED):
            between(self.register(iter([self.given.slice(at, _INSERTED)])))
        return int(self.given.num_rows - n_built)

    def pass_by(self, slots: Ints) -> None:
        """A batch joins, and some messages come by."""
        self.engine.insert(slots)
        self.send()

    def send(self) -> None:
        steps = admit(self.live, self.stream.space, self.stream.take(BATCH))
        self.engine.publish(steps)
        self.live.release(steps)


class Inserting(Drifted):
    """What filing the later ones takes; nothing else happens in between."""

    unit = "subscriptions"

    def repeat(self, watch: Stopwatch) -> int:
        def timed(slots: Ints) -> None:
            with watch:
                self.engine.insert(slots)
                watch.lap("10,000 subscriptions")

        return self.grow(timed)


class Pausing(Drifted):
    """The longest that an event waits: each later batch, and each 100 of the messages between, is a lap."""

    def repeat(self, watch: Stopwatch) -> int:
        n_messages = 0

        def timed(slots: Ints) -> None:
            nonlocal n_messages
            with watch:
                self.engine.insert(slots)
                watch.lap("10,000 subscriptions")
            for batch in batches(self.stream.take(BATCH), _PUBLISHED):
                steps = admit(self.live, self.stream.space, batch)
                with watch:
                    self.engine.publish(steps)
                    watch.lap("100 messages")
                self.live.release(steps)
                n_messages += _PUBLISHED

        self.grow(timed)
        return n_messages


class Subscribing(Delivery):
    """Through the broker: `changed` subscriptions join the others in batches of 10,000, and leave again.

    `leaving` says which of the two is timed.
    """

    unit = "subscriptions"

    def prepare(self) -> None:
        super().prepare()
        n, changed = self.sizes["subscriptions"], self.sizes["changed"]
        drawing = Drawing.of({"sample": 1, **self.sizes}, self.stream, self.seed + 1)
        joining = pa.concat_tables(list(drawing.tables(changed)))
        self.joining = joining.set_column(0, "id", pa.array(np.arange(n + 1, n + 1 + changed)))

    def repeat(self, watch: Stopwatch) -> int:
        tables = [self.joining.slice(at, _INSERTED) for at in range(0, self.joining.num_rows, _INSERTED)]
        for change, is_timed in ((self._join, not self.sizes["leaving"]), (self._leave, self.sizes["leaving"])):
            with watch if is_timed else nullcontext():
                for table in tables:
                    change(table)
                    if is_timed:
                        watch.lap("10,000 subscriptions")
        return int(self.joining.num_rows)

    def _join(self, table: pa.Table) -> None:
        if self.broker.subscribe_many(table).rejects:
            raise WrongAnswer("a subscription was refused")

    def _leave(self, table: pa.Table) -> None:
        if self.broker.unsubscribe_many(table["id"]).rejects:
            raise WrongAnswer("a subscription could not leave")
