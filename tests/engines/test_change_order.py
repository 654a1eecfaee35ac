"""Changes are put in order by event and slot, in one go or by several threads, and equals stay as they come."""

from __future__ import annotations

import numpy as np
import pytest

from nearcast.engines.change_order import DISTINCT, ORDERED, UNORDERED, order_found
from nearcast.engines.contract import Changes, by_event_and_slot
from nearcast.engines.parted import join


def some_changes(rng: np.random.Generator, n: int, n_events: int, n_slots: int) -> Changes:
    """In the order of events, in no order of slots; the messages number them."""
    events = np.sort(rng.integers(0, n_events, n)).astype(np.int32)
    slots, signs = rng.integers(0, n_slots, n).astype(np.int32), np.ones(n, np.int32)
    return Changes(events, slots, np.arange(n, dtype=np.int32), signs, rng.random(n))


def in_order(changes: Changes) -> Changes:
    return changes.take(np.lexsort((changes.slots, changes.events)))


@pytest.mark.parametrize(
    ("n", "n_events", "n_slots"), [(0, 1, 1), (9, 3, 2), (400, 5, 1_000), (1_500, 2, 3_000_000), (600, 600, 2**31 - 1)]
)
def test_by_event_then_by_slot_then_as_they_come(n: int, n_events: int, n_slots: int) -> None:
    changes = some_changes(np.random.default_rng(n), n, n_events, n_slots)
    ordered = by_event_and_slot(changes)
    for ours, right in zip(ordered, in_order(changes), strict=True):
        np.testing.assert_array_equal(ours, right)
    assert order_found(ordered.events, ordered.slots) != UNORDERED


def test_events_in_no_order() -> None:
    rng = np.random.default_rng(5)
    changes = some_changes(rng, 700, 9, 40)
    changes = changes.take(rng.permutation(700))
    for ours, right in zip(by_event_and_slot(changes), in_order(changes), strict=True):
        np.testing.assert_array_equal(ours, right)


@pytest.mark.parametrize(
    ("events", "slots", "found"),
    [([0, 0, 1], [3, 4, 0], DISTINCT), ([0, 0, 1], [3, 3, 0], ORDERED), ([0, 0], [4, 3], UNORDERED),
     ([1, 0], [0, 1], UNORDERED), ([], [], DISTINCT)],
)  # fmt: skip
def test_what_order_is_found(events: list[int], slots: list[int], found: int) -> None:
    assert order_found(np.array(events, np.int32), np.array(slots, np.int32)) == found


@pytest.mark.parametrize("n_tasks", [1, 2, 5])
@pytest.mark.parametrize("n_events", [1, 40])
def test_tasks_put_some_events_in_order_each(n_tasks: int, n_events: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join, "LITTLE", 0)
    rng = np.random.default_rng(n_tasks)
    parts = [some_changes(rng, n, n_events, 1_000) for n in (70, 300, 1)]
    parts = [part._replace(slots=3 * part.slots + at) for at, part in enumerate(parts)]  # nobody is in two parts
    changes, tasks = join.joining(parts, n_tasks)
    assert len(tasks) == n_tasks
    for task in reversed(tasks):
        task()
    right = in_order(Changes(*(np.concatenate(column) for column in zip(*parts, strict=True))))
    for ours, theirs in zip(changes, right, strict=True):
        np.testing.assert_array_equal(ours, theirs)
