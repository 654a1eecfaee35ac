"""Who would hear a message if it were published now: every subscription is tried, nothing changes."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from nearcast.broker.parts import Parts
from nearcast.broker.rejects import refusals
from nearcast.columns.arena import Floats, Ints, Longs
from nearcast.columns.decode_messages import MessageBatch, encode_batch
from nearcast.columns.message_table import MessageTable
from nearcast.columns.subscription_tables import PointTable, WithinTable
from nearcast.engines.contract import EngineContext, keeping
from nearcast.engines.kept.engine import BatchInput, Found
from nearcast.engines.oracle.best_live import best_live
from nearcast.engines.oracle.engine import SimilarOracle, WithinOracle
from nearcast.engines.oracle.match import find_everyone
from nearcast.model.kinds import Kind
from nearcast.window.live import LATE, Admission, LiveMessages, Steps
from nearcast.window.recency import order_numbers

_NOBODY: Ints = np.zeros(0, dtype=np.int32)


class _OneMessage(NamedTuple):
    """What stands in for the live messages while one is tried: it alone."""

    table: MessageTable
    window: None = None


class _Ranked(NamedTuple):
    """Messages and their ranks."""

    messages: Ints
    ranks: Floats


def decided_on(batch: MessageBatch, live: LiveMessages) -> Admission:
    """What would become of a single message.

    Raises
    ------
    InvalidInput
        Where a publish would.
    """
    decided = live.decide(batch)
    refused = refusals(batch, decided.status, live.window)
    if refused:
        raise refused[0][1]
    return decided


def who_hears(batch: MessageBatch, decided: Admission, parts: Parts) -> Ints:
    """Numbers of the subscriptions to which a publish of this single message would tell ``+`` for it."""
    if decided.status[0] == LATE:
        return _NOBODY
    vocabulary = parts.context.vocabulary
    known = vocabulary.keys.numbers()
    table = MessageTable(vocabulary, unique_ids=False)
    row = np.zeros(1, dtype=np.int64)
    slots = table.store(batch, encode_batch(batch, vocabulary), row, decided.lasts, decided.ts, decided.expires_at)
    steps = Steps(row, slots, decided.lasts, decided.clocks, np.zeros(2, np.int64), _NOBODY, _NOBODY)
    heard = [_by_kind(kind, table, steps, parts) for kind in parts.tables]
    vocabulary.free(np.setdiff1d(vocabulary.keys.numbers(), known))
    return np.concatenate(heard)


def _by_kind(kind: Kind, messages: MessageTable, steps: Steps, parts: Parts) -> Ints:
    table, context = parts.tables[kind], parts.context
    if not len(table):
        return _NOBODY
    alone = EngineContext(context.space, context.vocabulary, cast(Any, _OneMessage(messages)))
    if isinstance(table, WithinTable):
        slots = WithinOracle(table, alone).publish(steps).slots
    elif kind == Kind.SIMILAR:
        slots = SimilarOracle(table, alone).publish(steps).slots
    else:
        slots = _entered(kind, table, messages, steps, parts)
    numbers: Ints = table.numbers[slots]
    return numbers


def _entered(kind: Kind, table: PointTable, messages: MessageTable, steps: Steps, parts: Parts) -> Ints:
    """Slots of the subscriptions of which fewer than k messages that live on are better: the newcomer wins ties."""
    context, idf = parts.context, parts.context.vocabulary.idf
    n = table.rows.size
    found = Found(np.zeros(n, np.int32), np.zeros(n))
    batch = BatchInput(
        steps, messages.layout, table.layout, context.space.kernel_input, idf, np.zeros(idf.size)
    )  # fmt: skip
    n = find_everyone(int(kind), batch, 0, int(steps.arrivals[0]), found)
    slots, ranks = found.slots[:n], found.ranks[:n]
    n_kept, held, held_ranks = keeping(parts.engines)[kind].kept(slots)
    owners = np.repeat(np.arange(n), n_kept)
    lives = _lives_on(held, steps, parts)
    ts = int(messages.layout.rows["ts"][steps.arrivals[0]])
    better = _are_better(_Ranked(held, held_ranks), ranks[owners], ts, table.half_lives_of(slots[owners]), context)
    n_better = np.bincount(owners[lives & better], minlength=n)
    n_left = np.bincount(owners[lives], minlength=n)
    for at in np.flatnonzero(n_left < n_kept).tolist():  # others may come in for what leaves
        k = int(table.rows["k"][slots[at]])
        found_now = best_live(int(kind), table, int(slots[at]), k, context, int(steps.lasts[0]), int(steps.clocks[0]))
        half_lives = np.repeat(table.half_lives_of(slots[at : at + 1]), found_now[0].size)
        newcomer = np.full(found_now[0].size, ranks[at])
        n_better[at] = _are_better(_Ranked(*found_now), newcomer, ts, half_lives, context).sum()
    return slots[n_better < table.rows["k"][slots]]


def _lives_on(held: Ints, steps: Steps, parts: Parts) -> Any:
    """Which of these messages are there after the event."""
    live = parts.context.live
    if live.window is None:
        return np.ones(held.size, dtype=bool)
    rows, last, clock = live.table.layout.rows[held], int(steps.lasts[0]), int(steps.clocks[0])
    return (rows["sequence"] > last - live.limits.newest) & (rows["expires_at"] > clock)


def _are_better(held: _Ranked, ranks: Floats, ts: int, half_lives: Longs, context: EngineContext) -> Any:
    """Which messages are better than the newcomer, of this `ts` and with these ranks beside theirs."""
    if not half_lives.any():
        return held.ranks > ranks
    times = np.append(context.live.table.layout.rows["ts"][held.messages], np.full(ranks.size, ts))
    numbers = order_numbers(np.append(held.ranks, ranks), times, np.append(half_lives, half_lives))
    return numbers[: ranks.size] > numbers[ranks.size :]
