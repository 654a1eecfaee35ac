"""Who would hear a message if it were published now: engines find them as they would for it, and nothing changes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast.broker.parts import Parts
from nearcast.broker.rejects import refusals
from nearcast.columns.arena import Floats, Ints, Longs
from nearcast.columns.decode_messages import MessageBatch, encode_batch
from nearcast.columns.message_table import MessageTable
from nearcast.columns.subscription_tables import PointTable
from nearcast.engines.contract import EngineContext, keeping
from nearcast.engines.kept.engine import BatchInput, Found
from nearcast.engines.oracle.best_live import best_live
from nearcast.engines.oracle.match import find_among
from nearcast.model.kinds import Kind
from nearcast.window.live import LATE, Admission, LiveMessages, Steps
from nearcast.window.recency import order_numbers

_NOBODY: Ints = np.zeros(0, dtype=np.int32)
_MANY = 64  # messages that leave: of more, everybody is taken to hold one


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
    with vocabulary.trial():
        table = MessageTable(vocabulary, unique_ids=False)
        row = np.zeros(1, dtype=np.int64)
        encoded = encode_batch(batch, vocabulary, table.keeps_order)
        slots = table.store(batch, encoded, row, decided.lasts, decided.ts, decided.expires_at)
        steps = _one_event(slots, decided)
        heard = [_by_kind(kind, table, steps, parts) for kind in parts.tables]
    return np.concatenate(heard)


def _one_event(slots: Ints, decided: Admission) -> Steps:
    """An event in which one message arrives."""
    return Steps(np.zeros(1, np.int64), slots, decided.lasts, decided.clocks, np.zeros(2, np.int64), _NOBODY, _NOBODY)


def _by_kind(kind: Kind, messages: MessageTable, steps: Steps, parts: Parts) -> Ints:
    table = parts.tables[kind]
    if not len(table):
        return _NOBODY
    slots, ranks = parts.engines[kind].who_wants(messages, steps)
    if isinstance(table, PointTable) and kind in keeping(parts.engines):
        slots = _entered(kind, table, messages, steps, parts, slots, ranks)
    numbers: Ints = table.numbers[slots]
    return numbers


def _entered(
    kind: Kind, table: PointTable, messages: MessageTable, steps: Steps, parts: Parts, slots: Ints, ranks: Floats
) -> Ints:
    """Those of whose messages that live on fewer than k are better: the newcomer wins ties."""
    context = parts.context
    leaving = context.live.leaving(int(steps.lasts[0]), int(steps.clocks[0]))
    more = np.setdiff1d(np.append(_holders(kind, leaving, steps, parts), _fading(table)), slots)
    if more.size:
        found = Found(np.zeros(more.size, np.int32), np.zeros(more.size))
        idf = context.vocabulary.idf
        batch = BatchInput(
            steps, messages.layout, table.layout, context.space.kernel_input, idf, np.zeros(idf.size)
        )  # fmt: skip
        n = find_among(int(kind), batch, 0, steps.arrivals[0], more, found)
        slots, ranks = np.append(slots, found.slots[:n]), np.append(ranks, found.ranks[:n])
    n_kept, held, held_ranks = keeping(parts.engines)[kind].kept(slots)
    owners, k = np.repeat(np.arange(slots.size), n_kept), table.rows["k"][slots]
    lives = ~np.isin(held, leaving)
    ts = int(messages.layout.rows["ts"][steps.arrivals[0]])
    better = _are_better(_Ranked(held, held_ranks), ranks[owners], ts, table.half_lives_of(slots[owners]), context)
    n_better = np.bincount(owners[lives & better], minlength=slots.size)
    n_left = np.bincount(owners[lives], minlength=slots.size)
    for at in np.flatnonzero((n_left < n_kept) & (n_left < k)).tolist():  # others may come in for what leaves
        slot, as_of = int(slots[at]), (int(steps.lasts[0]), int(steps.clocks[0]))
        found_now = best_live(int(kind), table, slot, int(k[at]), context, *as_of)
        half_lives = np.repeat(table.half_lives_of(slots[at : at + 1]), found_now[0].size)
        newcomer = np.full(found_now[0].size, ranks[at])
        n_better[at] = _are_better(_Ranked(*found_now), newcomer, ts, half_lives, context).sum()
    return slots[n_better < k]


def _fading(table: PointTable) -> Ints:
    """Subscriptions whose scores fade: a later clock lowers what it takes, which their index does not know yet."""
    if not table.fades:
        return _NOBODY
    slots = table.used_slots
    return slots[table.half_lives_of(slots) > 0]


def _holders(kind: Kind, leaving: Ints, steps: Steps, parts: Parts) -> Ints:
    """Who may hold one of these messages: each is looked for as if it arrived."""
    if not leaving.size:
        return _NOBODY
    if leaving.size > _MANY:
        return parts.tables[kind].used_slots
    engine, live = parts.engines[kind], parts.context.live.table
    found = [engine.who_wants(live, steps._replace(arrivals=leaving[i : i + 1]))[0] for i in range(leaving.size)]
    return np.unique(np.concatenate(found))


def _are_better(held: _Ranked, ranks: Floats, ts: int, half_lives: Longs, context: EngineContext) -> Any:
    """Which messages are better than the newcomer, of this `ts` and with these ranks beside theirs."""
    if not half_lives.any():
        return held.ranks > ranks
    times = np.append(context.live.table.layout.rows["ts"][held.messages], np.full(ranks.size, ts))
    numbers = order_numbers(np.append(held.ranks, ranks), times, np.append(half_lives, half_lives))
    return numbers[: ranks.size] > numbers[ranks.size :]
