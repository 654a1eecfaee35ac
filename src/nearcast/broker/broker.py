"""The broker: subscriptions and messages in, updates out. One call at a time; an event that fails changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from nearcast.broker.ask.estimate import as_limit, rejected, too_broad, without, without_moves
from nearcast.broker.ask.questions import Questions
from nearcast.broker.compile_ahead import COMPILE_AHEAD
from nearcast.broker.engines import (
    EngineChoice,
    Table,
    asked_fields,
    check_choice,
    check_replacements,
    choice_of,
    file_again,
    make_engines,
)
from nearcast.broker.guard import Guard, one_at_a_time
from nearcast.broker.in_turn import Take, in_pieces, take_in_turn
from nearcast.broker.moves import Movable, many_moves, one_move, rows_of_slots, split_repeats
from nearcast.broker.ordering import in_order, to_updates
from nearcast.broker.parts import Parts
from nearcast.broker.registry import Registry, ranks_of
from nearcast.broker.rejects import ending, late_rows, new_ids_only, refusals
from nearcast.broker.snapshots import snapshot
from nearcast.broker.snapshots.load import check_and_load
from nearcast.broker.snapshots.older import as_now
from nearcast.broker.snapshots.snapshot import Stored
from nearcast.broker.snapshots.state import Outline, outline_of, state_of
from nearcast.broker.time_unit import TimeUnit
from nearcast.broker.transfer import adopt_rows, check_copied, export_rows
from nearcast.broker.vacuum import Vacuum
from nearcast.columns.arena import Array, Ints, Longs, State
from nearcast.columns.arrow_rows import parts_of
from nearcast.columns.decode_messages import MessageBatch, checked_message, decode_messages
from nearcast.columns.decode_moves import Goals, Moves, from_objects
from nearcast.columns.decode_subscriptions import Part, Rules, check_subscription, decode_one, decode_subscriptions
from nearcast.columns.ids import id_type
from nearcast.columns.subscription_tables import NOTHING_BEFORE, PointTable, WithinTable
from nearcast.columns.updates import Updates
from nearcast.engines.contract import NO_CHANGES, Changes, EngineContext, difference, entering, together
from nearcast.engines.parted import MOST_THREADS, Workers
from nearcast.errors import DuplicateId, InvalidInput, SnapshotError, UnknownId
from nearcast.model.analyzer import Analyzer, as_analyzer
from nearcast.model.checks import flag, is_a, whole
from nearcast.model.event import Move
from nearcast.model.frames import size_of
from nearcast.model.geojson import RegionValue
from nearcast.model.instant import TimeValue, instant
from nearcast.model.kinds import Kind
from nearcast.model.message import Message
from nearcast.model.query import Query, Subscription
from nearcast.model.rows import IdRows, MessageRows, MoveRows, SubscriptionRows
from nearcast.model.update import Reject
from nearcast.space.space import Space
from nearcast.text.vocabulary import Vocabulary
from nearcast.text.weights import Weights, check_analyzer
from nearcast.text.words import as_given
from nearcast.window.live import LiveMessages, Steps
from nearcast.window.passing import Passing
from nearcast.window.window import Window
from nearcast.work_progress import UNWATCHED, Progress, Work, watch

CHUNK = 4096  # messages taken in at a time


class Broker(Questions):
    """The front door over all engines.

    Threads wait for each other. An interrupted call is absent or applied, or all later ones raise `BrokenBroker`.

    Parameters
    ----------
    space
        Where everything lies, and how distances are measured.
    window
        How long messages live. Without one, `Within` and `Similar` notify only, `Nearest` keeps its k nearest since
        registration, and `TopK` is refused.
    weights
        How much each word counts; every word counts 1 unless given.
    engines
        Settings by kind of query, such as ``{"similar": StampSettings(fanout=512)}``. Answers are the same for all
        settings. Instead of settings, a function that makes another engine from a table and an `EngineContext`.
    analyzer
        What becomes of words, of messages and queries alike: stop words, stems, accents. None for the plain rule.
    max_matches_per_hour
        A subscription whose `estimate` is more than this is refused, and so is a move after which it is; None: none.
    threads
        Cores that a call may use. Updates and their order are the same whatever it is.

    Examples
    --------
    >>> import nearcast as nc
    >>> broker = nc.Broker(nc.Space((0, 0, 10, 10), metric="euclidean"), window=nc.Window(count=100))
    >>> len(broker.subscribe("ann", nc.Nearest(5, 5, "ramen", k=1)))
    0
    >>> [(u.sign, u.message, u.score) for u in broker.publish(nc.Message("m1", 5, 8, "ramen here", ts=1))]
    [('+', 'm1', 3.0)]
    """

    def __init__(
        self,
        space: Space,
        window: Window | None = None,
        weights: Weights | None = None,
        engines: EngineChoice | None = None,
        analyzer: Analyzer | None = None,
        max_matches_per_hour: float | None = None,
        threads: int = 1,
    ) -> None:
        if not is_a(space, Space):
            raise InvalidInput("space", space, "must be a Space")
        if window is not None and not is_a(window, Window):
            raise InvalidInput("window", window, "must be a Window or None")
        if weights is not None and not is_a(weights, Weights):
            raise InvalidInput("weights", weights, "must be Weights or None")
        self.analyzer = as_analyzer(analyzer)
        if weights is not None:
            check_analyzer(weights, self.analyzer)
        self._chosen = check_choice(engines)
        self.threads = whole("threads", threads, 1, MOST_THREADS)
        self.max_matches_per_hour = as_limit(max_matches_per_hour, window)
        self._guard = Guard()
        self._time_unit = TimeUnit()
        self.space = space
        self.window = window
        self._vocabulary = Vocabulary(weights, self.analyzer)
        self._live = LiveMessages(space, window, self._vocabulary)
        self._context = EngineContext(space, self._vocabulary, self._live)
        self._registry = Registry()
        self._tables: dict[Kind, Table] = {
            Kind.WITHIN: WithinTable(self._vocabulary),
            Kind.SIMILAR: PointTable(self._vocabulary, Kind.SIMILAR),
            Kind.TOPK: PointTable(self._vocabulary, Kind.TOPK),
            Kind.NEAREST: PointTable(self._vocabulary, Kind.NEAREST),
        }
        self._asked = partial(asked_fields, window, self._tables)
        self._passing = Passing(self._live, self._tables[Kind.NEAREST], self._tables[Kind.SIMILAR], self._asked)
        self._engines = make_engines(self._chosen, self._tables, self._context, Workers(self.threads))
        self._vacuum = Vacuum(self._context, self._tables, self._engines)
        COMPILE_AHEAD.begin(space, window)

    @property
    def parts(self) -> Parts:
        """What the broker is made of, for tests and benchmarks; not for everyday use."""
        return Parts(self._registry, self._tables, self._engines, self._context)

    # Subscriptions

    @one_at_a_time
    def subscribe(
        self, id: str | int, query: Query, expires: TimeValue | None = None, replace: bool = False
    ) -> Updates:
        """Register a subscription; returns the live messages that it starts with as ``+``.

        With `replace` the id may be taken: the query under it is exchanged for this one in a single event, which
        returns the net change of the result, ``-`` for what leaves and ``+`` for what enters.

        Raises
        ------
        InvalidInput
            For a query that cannot be honoured; `DuplicateId` for an id that is taken, unless it is replaced.
        """
        subscription = Subscription(id, query, expires)
        replace = flag("replace", replace)
        check_subscription(subscription, self._rules)
        number = self._registry.find(subscription.id)
        if number >= 0 and not replace:
            raise DuplicateId("id", id, "must not be the id of another subscription")
        part = decode_one(subscription, self._rules)
        for error in self._too_broad([part]).values():
            raise error
        return self._add(part, subscription.id) if number < 0 else self._replace(part, subscription, number)

    def _add(self, part: Part, id: str | int) -> Updates:
        with self._guard.applying("subscribe"):
            self._vacuum.sweep()
            self._registry.ids.type = self._registry.ids.type or id_type(id)
            return self._updates([self._register(part)] if part.given.expires[0] > self._live.clock else [])

    def _replace(self, part: Part, subscription: Subscription, number: int) -> Updates:
        with self._guard.applying("subscribe"):
            self._vacuum.sweep()
            kind, slot = self._registry.where(number)
            had, scores = self._engines[kind].result(slot)
            had, scores = had.copy(), scores.copy()
            self._end(np.array([number], dtype=np.int32))
            if part.given.expires[0] <= self._live.clock:
                updates = self._updates([])
                updates.ended = [subscription.id]
                return updates
            kind, found = self._register(part)
            _, slot = self._registry.where(self._registry.find(subscription.id))
            before = entering(np.full(had.size, slot, np.int32), had, scores)
            return self._updates([(kind, difference(before, found))])

    @one_at_a_time
    def subscribe_many(self, subscriptions: SubscriptionRows, progress: Progress = None) -> Updates:
        """Register many: `Subscription` objects, ``(id, query[, expires])``, JSON forms, an Arrow table or a frame.

        Long batches show a bar, or call a function, as `publish` says of `progress`.
        """
        return self._in_turn("subscriptions", subscriptions, self._subscribe, progress)

    def _in_turn(self, field: str, source: Any, take: Take, progress: Progress = False) -> Updates:
        """A batch, or a stream of batches as they come; rows are numbered through."""
        parts = parts_of(field, source, self.space.metric == "haversine")
        taken = take_in_turn(parts, take, watch(field, progress, size_of(source)))
        return Updates.in_turn(taken or [(0, self._updates([]))])

    def _subscribe(self, subscriptions: Any, work: Work = UNWATCHED) -> Updates:
        batch = decode_subscriptions(subscriptions, self._rules)
        parts, taken = new_ids_only(batch.parts, self._registry, self._live.clock)
        broad = self._too_broad(parts)
        parts = without(parts, broad) if broad else parts
        rejects = rejected([*batch.rejects, *taken], broad)
        with self._guard.applying("subscribe"):
            self._vacuum.sweep()
            if batch.parts and self._registry.ids.type is None:
                self._registry.ids.type = id_type(batch.parts[0].ids[0].as_py())
            n_rows = max((int(part.given.rows.max()) + 1 for part in parts), default=0)
            ranks = ranks_of([part.given.rows for part in parts])
            emitted = [self._register(part, own, work) for part, own in zip(parts, ranks, strict=True)]
            self._registry.pass_ranks(sum(own.size for own in ranks))
            return self._updates(emitted, rejects, np.full(n_rows, self._live.clock))

    def _too_broad(self, asked: Sequence[Part | Moves], call: str = "subscribe") -> dict[int, InvalidInput]:
        """Rows that are expected to match more messages an hour than the broker allows, and why they are refused."""
        if self.max_matches_per_hour is None or not asked:
            return {}
        with self._guard.applying(call):
            return too_broad(asked, self.max_matches_per_hour, self.parts)

    @property
    def _rules(self) -> Rules:
        return Rules(self.space, self.window is not None, self._registry.ids.type, self.analyzer)

    def _register(self, part: Part, ranks: Longs | None = None, work: Work = UNWATCHED) -> tuple[Kind, Changes]:
        kind, since = part.kind, self._live.last or NOTHING_BEFORE
        numbers = self._registry.add(part.ids, kind, ranks)
        terms = self._vocabulary.encode(as_given(part.words))
        slots = self._tables[kind].write(part.given, part.n_clauses, terms, numbers, since, part.where)
        self._registry.place(numbers, slots, part.given.expires)
        self._engines[kind].insert(slots)
        if COMPILE_AHEAD.running:
            COMPILE_AHEAD.tell(kind, self._tables[kind].rows[slots])
        found = self._fill(kind, slots[part.given.backfill], work)
        work.add(int(slots.size - part.given.backfill.sum()))
        if found.slots.size and ranks is not None:  # of a batch
            found = found._replace(events=rows_of_slots(found.slots, slots, part.given.rows))
        return kind, self._in_order(kind, found)

    def _fill(self, kind: Kind, slots: Ints, work: Work = UNWATCHED) -> Changes:
        """What these subscriptions find among the live messages."""
        if self.window is None or not len(self._live.table) or not slots.size:
            work.add(slots.size)
            return NO_CHANGES
        return together([self._engines[kind].fill(some) for some in in_pieces(slots, work)])

    def _in_order(self, kind: Kind, changes: Changes, clocks: Longs | None = None) -> Changes:
        """Changes in the order of updates, as of the clock after each, or as of now."""
        as_of = self._live.clock if clocks is None else clocks
        return in_order(kind, self._tables[kind], changes, self._live.table, as_of)

    @one_at_a_time
    def unsubscribe(self, id: str | int) -> Updates:
        """End a subscription, silently: there are never any updates.

        Raises
        ------
        UnknownId
            If there is no such subscription.
        """
        number = np.array([self._number(id)], dtype=np.int32)
        with self._guard.applying("unsubscribe"):
            self._end(number)
            self._vacuum.sweep()
        return self._updates([])

    @one_at_a_time
    def unsubscribe_many(self, ids: IdRows) -> Updates:
        """End many subscriptions: ids, or Arrow or a frame with a column `id`; unknown ones are in the rejects."""
        return self._in_turn("ids", ids, self._unsubscribe)

    def _unsubscribe(self, ids: Any, _: Work) -> Updates:
        numbers, rejects = ending(ids, self._registry)
        with self._guard.applying("unsubscribe_many"):
            self._end(numbers)
            self._vacuum.sweep()
        return self._updates([], rejects)

    def _end(self, numbers: Ints) -> None:
        for kind, slots in self._registry.by_kind(numbers):
            self._engines[kind].remove(slots)
            self._tables[kind].remove(slots)
        self._registry.remove(numbers)

    @one_at_a_time
    def move(
        self, id: str | int, lon: float | None = None, lat: float | None = None, region: RegionValue | None = None
    ) -> Updates:
        """Give a subscription another place, or a `Within` another region; returns what leaves and what enters.

        Raises
        ------
        InvalidInput
            For a place or region that does not fit the subscription; `UnknownId` if there is none.
        """
        move = Move(id, lon, lat, region)
        single = one_move(move, self._movable)
        if self.max_matches_per_hour is not None:
            for error in self._too_broad(from_objects([(0, move)], self.space), "move").values():
                raise error
        with self._guard.applying("move"):
            return self._updates([self._move(*single)])

    @one_at_a_time
    def move_many(self, moves: MoveRows) -> Updates:
        """Move many in turn: `Move` objects, JSON forms, an Arrow table or a frame.

        A table has `id` and either `lon, lat` or a region, as GeoJSON in `region` or as the four sides of a box.
        """
        return self._in_turn("moves", moves, self._move_many)

    def _move_many(self, source: Any, _: Work) -> Updates:
        moves, rejects = many_moves(source, self._movable)
        broad = self._too_broad(moves, "move")
        return self._relocate(without_moves(moves, broad) if broad else moves, rejected(rejects, broad))

    @property
    def _movable(self) -> Movable:
        return Movable(self._registry, self.space, self.window is not None)

    def _relocate(self, parts: list[Moves], rejects: Iterable[Reject] = ()) -> Updates:
        n_rows = max((int(moves.rows[-1]) + 1 for moves in parts if moves.rows.size), default=0)
        turns = list(split_repeats(parts, self._registry))
        with self._guard.applying("move"):
            emitted = [self._move(kind, slots, moves.goals, moves.rows) for kind, slots, moves in turns]
            return self._updates(emitted, rejects, np.full(n_rows, self._live.clock))

    def _move(self, kind: Kind, slots: Ints, goals: Goals, rows: Longs | None = None) -> tuple[Kind, Changes]:
        """Let subscriptions go to these places or regions: rows of a batch, or one alone."""
        with self._tables[kind].moving(slots, goals) as before:
            changes = self._engines[kind].move(slots, before)
        if rows is not None:
            changes = changes._replace(events=rows_of_slots(changes.slots, slots, rows))
        return kind, self._in_order(kind, changes)

    # Subscriptions that go to another broker

    @one_at_a_time
    def export_subscriptions(self, ids: Iterable[Any] | pa.Array) -> State:
        """A copy of subscriptions with all that is theirs, for `adopt` of a broker that saw the same messages.

        They stay here until they are unsubscribed. Ids that are nobody's are passed over. The copy is made of arrays
        and plain values, so that it can be filed like a snapshot.
        """
        return export_rows(ids, self.parts)

    @one_at_a_time
    def adopt(self, rows: State) -> None:
        """Take subscriptions over from a broker with the same window that saw the same messages; nothing is emitted.

        They go on as they would have there: the next event that changes a result is told as if they had never moved.

        Raises
        ------
        InvalidInput
            For what no `export_subscriptions` has made, and for ids of another type than those here; `DuplicateId` if
            one of them is here already.
        """
        check_copied(rows, self.parts)
        with self._guard.applying("adopt"):
            self._vacuum.sweep()
            adopt_rows(rows, self.parts)

    # Messages and time

    @one_at_a_time
    def publish(self, messages: Message | Mapping[str, Any] | MessageRows, progress: Progress = None) -> Updates:
        """Take in one message, or a batch: `Message` objects, JSON forms, an Arrow table of their columns or a frame.

        A stream (a record batch reader, a DuckDB relation) is read and published batch by batch; if reading it fails,
        the batches before were published.

        Long batches show a bar on a terminal and in a notebook, unless `progress` is False. A function is called with
        the rows done and how many there are (None: not known); what it raises is raised when the batch is whole.

        Raises
        ------
        InvalidInput
            For a single message that cannot be honoured, and for what is neither rows nor columns. In a batch rows
            that cannot be honoured are in `Updates.rejects`.

        Messages that are late are no error: `Updates.late` tells which, and why.
        """
        return self._publish_all(messages, progress, updating=False)

    @one_at_a_time
    def update(self, messages: Message | Mapping[str, Any] | MessageRows, progress: Progress = None) -> Updates:
        """Let new versions take the place of live messages with the same ids; takes what `publish` takes.

        The old version leaves and the new one arrives in one event. What belongs to a result before and after, under
        the same id, is not mentioned; all else is told, ``-`` for what leaves with the score that it had. An id that
        is not live is published. A version that is refused or late leaves the old one as it is.

        Raises
        ------
        InvalidInput
            Without a window, and as `publish` does.
        """
        self._need_window("update")
        return self._publish_all(messages, progress, updating=True)

    @one_at_a_time
    def retract(self, id: str | int) -> Updates:
        """Withdraw a live message; returns ``-`` for every result that it was in, of `Within` and `Similar` too.

        Raises
        ------
        UnknownId
            If there is no such live message; `InvalidInput` without a window.
        """
        self._need_window("retract")
        slot = self._live.table.ids.find(id)
        if slot < 0:
            raise UnknownId("id", id, "must be the id of a live message")
        with self._guard.applying("retract"):
            return self._take(self._live.retract(slot))

    def _need_window(self, event: str) -> None:
        if self.window is None:
            raise InvalidInput("window", None, f"must be given to {event} messages")

    def _publish_all(self, messages: Any, progress: Progress, updating: bool) -> Updates:
        if type(messages) is Message or is_a(messages, Message | Mapping):
            message = checked_message(messages, self.space, self._live.table.ids.type)
            updates = self._publish_one(message, updating)
            return self._publish([message], updating, single=True) if updates is None else updates
        return self._in_turn("messages", messages, lambda part, work: self._publish(part, updating, work), progress)

    def _publish_one(self, message: Message, updating: bool) -> Updates | None:
        """Take in a single message by the short way; None, and nothing has happened, if it must go the long one."""
        if message.ts is not None:
            self._time_unit.look_at(message.ts)
        with self._guard.applying("update" if updating else "publish"):
            steps = self._passing.admit(message) or self._live.admit_one(message, updating)
            return None if steps is None else self._take(steps, steps.rows)

    def _publish(self, messages: Any, updating: bool, work: Work = UNWATCHED, single: bool = False) -> Updates:
        batch = decode_messages(messages, self.space, self._live.table.ids.type, self._asked())
        self._time_unit.look(batch.ts)
        with self._guard.applying("update" if updating else "publish"):
            updates, refused, late = self._take_in(batch, updating, work)
        if single and refused:
            raise refused[0][1]
        rejects = [*batch.rejects, *(Reject(row, error.field, str(error)) for row, error in refused)]
        return Updates.concat(updates or [self._updates([])], sorted(rejects, key=lambda reject: reject.row), late)

    def _take_in(
        self, batch: MessageBatch, updating: bool, work: Work
    ) -> tuple[list[Updates], list[tuple[int, InvalidInput]], list[Reject]]:
        """Take in messages that were checked: what changes, and which rows the window refused or found late."""
        updates: list[Updates] = []
        refused: list[tuple[int, InvalidInput]] = []
        late: list[Reject] = []
        at, n = 0, batch.x.size
        while at < n:
            part = batch if n <= CHUNK and at == 0 else batch.slice(at, min(at + CHUNK, n))
            steps, status = self._live.admit(part, updating)
            if status.any():  # mostly all are admitted
                refused += refusals(part, status, self.window)
                late += late_rows(part, status, steps, self.window)
            updates.append(self._take(steps, steps.rows))
            at += part.x.size
            work.add(part.x.size)
        return updates, refused, late

    @one_at_a_time
    def advance(self, ts: TimeValue) -> Updates:
        """Move the clock, to epoch milliseconds, a datetime or an ISO 8601 string; backwards it does nothing."""
        to = instant("ts", ts)
        self._time_unit.look_at(to)
        with self._guard.applying("advance"):
            return self._take(self._live.advance(to))

    def _take(self, steps: Steps, rows: Longs | None = None) -> Updates:
        """Let every engine see these events, which rows of a batch caused, then forget what ended."""
        emitted = []
        for kind, engine in COMPILE_AHEAD.in_turn(self._engines, publishes=rows is not None):
            changes = engine.publish(steps)
            if changes.slots.size:
                clocks = steps.clocks[changes.events] if engine.keeps_results else None
                emitted.append((kind, self._in_order(kind, changes, clocks)))
        updates = self._updates(emitted, clocks=steps.clocks, rows=rows)
        ended = self._registry.ended(self._live.clock)
        if ended.size:
            updates.ended = self._registry.ids.to_arrow(ended).to_pylist()
            self._end(ended)
        if not self._passing.end() and self.window is None and not len(self._tables[Kind.NEAREST]):
            self._live.forget_arrivals(steps)  # only `Nearest` keep messages then
        self._live.release(steps)
        self._vacuum.sweep()
        return updates

    @one_at_a_time
    def reweigh(self, weights: Weights) -> Updates:
        """Change the weights of words, as one event; returns how results change."""
        if not is_a(weights, Weights):
            raise InvalidInput("weights", weights, "must be Weights")
        check_analyzer(weights, self.analyzer)
        with self._guard.applying("reweigh"):
            return self._reweigh(weights)

    def _reweigh(self, weights: Weights) -> Updates:
        weighed, engines = (Kind.SIMILAR, Kind.TOPK), self._engines  # the kinds whose scores depend on weights
        before = {
            kind: self._fill(kind, self._tables[kind].used_slots) for kind in weighed if not engines[kind].keeps_results
        }
        self._vocabulary.set_weights(weights)
        self._live.reweigh()
        for kind, engine in engines.items():
            self._tables[kind].reweighed()
            engine.reweighed()
        emitted = []
        for kind in weighed:
            changes = self._fill(kind, self._tables[kind].used_slots)
            if kind in before:
                changes = difference(before[kind], changes)
            emitted.append((kind, self._in_order(kind, changes)))
        return self._updates(emitted)

    def _updates(
        self,
        emitted: Iterable[tuple[Kind, Changes]],
        rejects: Iterable[Reject] = (),
        clocks: Array | None = None,
        rows: Longs | None = None,
    ) -> Updates:
        clocks = np.array([self._live.clock]) if clocks is None else clocks
        placed = [(self._tables[kind], changes) for kind, changes in emitted]
        return to_updates(placed, clocks, self._registry, self._live.table, list(rejects), rows)

    # Snapshots

    @one_at_a_time
    def snapshot(self, path: str | os.PathLike[str]) -> None:
        """Write the whole broker to one file, whole or not at all."""
        snapshot.write(path, self._state())

    def _state(self) -> State:
        outline = Outline(self.space, self.window, self.analyzer, self.max_matches_per_hour, self.threads)
        return state_of(outline, self.parts, self._vacuum)

    @classmethod
    def restore(
        cls, path: str | os.PathLike[str], engines: EngineChoice | None = None, threads: int | None = None
    ) -> Broker:
        """The broker that was written; it goes on exactly as if it had never stopped.

        Settings are part of the file. Engines that stood in for the standard ones must be given once more. With
        another number of `threads`, or an older format, subscriptions are filed, and results looked for, again.

        Raises
        ------
        InvalidInput
            For engines that cannot stand in.
        SnapshotError
            If the file is not a snapshot, is damaged, has another format version, or does not hold a broker.
        """
        replacements = check_replacements(engines)
        n = None if threads is None else whole("threads", threads, 1, MOST_THREADS)
        stored = snapshot.read_stored(path)
        try:
            broker = cls._restored(stored, replacements)
        except (MemoryError, OSError):
            raise
        except Exception as error:
            raise SnapshotError(f"{path} does not hold a broker: {error}") from error
        if n is not None and n != broker.threads:
            broker.threads, own = n, (broker._tables, broker._context, Workers(n))
            file_again(broker._engines, make_engines(broker._chosen, *own))
        return broker

    @classmethod
    def _restored(cls, stored: Stored, replacements: EngineChoice) -> Broker:
        state = as_now(stored)
        space, window, rule, limit, n = outline_of(state)
        chosen = choice_of(state["settings"], replacements)
        broker = cls(space, window, engines=chosen, analyzer=rule, max_matches_per_hour=limit, threads=n)
        check_and_load(stored._replace(state=state), broker._state(), broker.parts, broker._vacuum)
        return broker
