"""What can be asked of a broker: results, subscriptions, explanations, a map. Nothing changes by it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from nearcast.broker.ask.estimate import Estimate, estimates
from nearcast.broker.ask.explain import Explanation, explain_one
from nearcast.broker.ask.map import map_of_now
from nearcast.broker.ask.match import decided_on, who_hears
from nearcast.broker.ask.subscriptions import one_subscription, subscription_table
from nearcast.broker.guard import Guard, one_at_a_time
from nearcast.broker.parts import Parts
from nearcast.broker.registry import unknown
from nearcast.broker.stats import stats
from nearcast.columns.decode_messages import checked_message, decode_messages
from nearcast.columns.decode_subscriptions import Rules, check_subscription, decode_one
from nearcast.columns.results import Results
from nearcast.errors import InvalidInput
from nearcast.model.message import Message
from nearcast.model.query import Query, Subscription
from nearcast.page.map import Map


class Questions(ABC):
    """The part of a `Broker` that only reads."""

    _guard: Guard

    @property
    @abstractmethod
    def parts(self) -> Parts:
        """What the broker is made of, for tests and benchmarks; not for everyday use."""

    def _number(self, id: Any) -> int:
        number = self.parts.registry.find(id)
        if number < 0:
            raise unknown(id)
        return number

    @one_at_a_time
    def results(self, id: str | int) -> Results:
        """The result of a subscription now: (message id, score), best first; `Within` newest first, with no scores.

        A list, with `to_arrow()`, `to_pandas()` and `to_polars()` for tables of it.
        """
        kind, slot = self.parts.registry.where(self._number(id))
        found, scores = self.parts.engines[kind].result(slot)
        ids = self.parts.context.live.table.ids.to_arrow(found)
        pairs = zip(ids.to_pylist(), scores, strict=True)
        return Results(((id, None if np.isnan(score) else float(score)) for id, score in pairs), ids.type)

    @one_at_a_time
    def subscriptions(self) -> pa.Table:
        """All subscriptions in the order of their registration, as a table that `subscribe_many` takes.

        They ask the same questions, but are not written as they were: an expression is in its normal form, such as
        ``a b NOT c OR d``, and boxes are in four columns. `keywords` holds texts. If a list of words cannot be said in
        a text, the column holds lists; or, if there are expressions beside it, a union of both.
        """
        return subscription_table(self.parts.registry.in_order(), self.parts)

    @one_at_a_time
    def subscription(self, id: str | int) -> Subscription:
        """One subscription, as it stands now: moves have changed its place.

        Raises
        ------
        UnknownId
            If there is no such subscription.
        """
        return one_subscription(self._number(id), self.parts)

    @one_at_a_time
    def map(self, ids: Iterable[str | int] | None = None, title: str = "Nearcast") -> Map:
        """A map of this moment: live messages, subscriptions with their regions, and what each result holds.

        A notebook shows it; ``broker.map().save("map.html")`` writes a page that needs no network. It has room for the
        first 200 subscriptions, or of `ids`, and for 20,000 messages: what they hold, and the newest. A broker keeps
        the words of messages, not their texts; `nearcast.report` shows those.
        """
        return map_of_now(ids, self.parts, title)

    @one_at_a_time
    def explain(self, id: str | int, message_id: str | int) -> Explanation:
        """The parts of a message's score for a subscription, or why it is not in the result.

        Raises
        ------
        UnknownId
            If there is no such subscription, or no such live message.
        """
        return explain_one(self._number(id), message_id, self.parts)

    @property
    @one_at_a_time
    def subscription_ids(self) -> pa.Array:
        """The ids of all subscriptions."""
        ids = self.parts.registry.ids
        return ids.to_arrow(ids.keys.numbers())

    @one_at_a_time
    def match(self, message: Message | Mapping[str, Any]) -> list[str | int]:
        """Who would hear of a message: ids of the subscriptions to which a publish of it would tell ``+`` for it.

        In the order of their registration. Nobody hears of a message that is late. They are found as a publish finds
        them; nothing changes but the counts of work in `stats`.

        Raises
        ------
        InvalidInput
            As `publish` does.
        """
        registry, _, _, context = self.parts
        id_type = context.live.table.ids.type
        batch = decode_messages([checked_message(message, context.space, id_type)], context.space, id_type)
        decided = decided_on(batch, context.live)
        with self._guard.applying("match"):
            heard = who_hears(batch, decided, self.parts)
        ids: list[str | int] = registry.ids.to_arrow(registry.ordered(heard)).to_pylist()
        return ids

    @one_at_a_time
    def estimate(self, query: Query) -> Estimate:
        """How many live messages a query would match, and how many that is an hour: before anybody subscribes.

        For `TopK` and `Nearest` those count that qualify, whatever k.

        Raises
        ------
        InvalidInput
            For a query that cannot be honoured, and without a window.
        """
        context = self.parts.context
        if context.live.window is None:
            raise InvalidInput("window", None, "must be given to estimate: without one no message is live")
        rules = Rules(context.space, True, None, context.vocabulary.analysis.analyzer)
        subscription = Subscription(0, query)
        check_subscription(subscription, rules)
        part = decode_one(subscription, rules)
        with self._guard.applying("estimate"):
            return estimates(part, context)[0]

    @one_at_a_time
    def stats(self) -> dict[str, Any]:
        """Sizes, counts of work and bytes."""
        registry, tables, engines, context = self.parts
        return stats(
            {kind.label: table for kind, table in tables.items()},
            {kind.label: engine.stats() for kind, engine in engines.items()},
            registry,
            context,
        )

    @one_at_a_time
    def check(self) -> None:
        """Assert that all arrays are consistent; for tests."""
        registry, tables, engines, context = self.parts
        for engine in engines.values():
            engine.check()
        context.live.index.check(context.live.table.layout)
        assert sum(len(table) for table in tables.values()) == len(registry)
