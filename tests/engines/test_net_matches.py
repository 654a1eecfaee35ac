"""What engines emit when messages are withdrawn, against sets of pairs."""

from __future__ import annotations

import numpy as np
import pytest

from nearcast.engines.contract import Changes, net_kept, net_matches
from nearcast.window.live import Steps

N_MESSAGES = 20


def matches(rng: np.random.Generator, n_events: int, n_slots: int, in_order: bool) -> Changes:
    """Pairs of events and slots, each once."""
    pairs = rng.choice(n_events * n_slots, rng.integers(0, n_events * n_slots + 1), replace=False)
    if in_order:
        pairs.sort()
    events, slots, messages = pairs // n_slots, pairs % n_slots, rng.integers(0, N_MESSAGES, pairs.size)
    columns = (column.astype(np.int32) for column in (events, slots, messages))
    return Changes(*columns, np.ones(pairs.size, np.int32), rng.random(pairs.size))


def by_pair(changes: Changes) -> dict[tuple[int, int], tuple[int, int, float]]:
    rows = zip(*(column.tolist() for column in changes), strict=True)
    return {(event, slot): (message, sign, score) for event, slot, message, sign, score in rows}


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_a_pair_of_both_lists_hears_nothing(seed: int, in_order: bool) -> None:
    rng = np.random.default_rng(seed)
    n_events, n_slots = rng.integers(1, 6, 2).tolist()
    held, matched = (matches(rng, n_events, n_slots, in_order) for _ in range(2))
    since, sequences = rng.integers(0, 4, n_slots), rng.integers(0, 8, N_MESSAGES)
    net = by_pair(net_matches(held, matched, since, sequences))
    counted = {pair: row for pair, row in by_pair(held).items() if sequences[row[0]] > since[pair[1]]}
    enters = by_pair(matched)
    expected = {pair: row for pair, row in enters.items() if pair not in counted}
    expected |= {pair: (row[0], -1, row[2]) for pair, row in counted.items() if pair not in enters}
    assert net == expected
    assert list(net) == sorted(net)  # by event and slot, as the broker tells them


def test_lists_that_are_alike_leave_nothing_and_stay_as_they_are() -> None:
    rng = np.random.default_rng(3)
    held = matches(rng, 4, 4, in_order=True)
    before = [column.copy() for column in held]
    assert not net_matches(held, held, np.zeros(4, np.int64), np.ones(N_MESSAGES, np.int64)).slots.size
    assert all((column == own).all() for column, own in zip(held, before, strict=True))


@pytest.mark.parametrize("seed", range(12))
def test_a_message_that_stays_in_a_result_under_its_id_is_not_told(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_events, n_slots, n = 6, 5, rng.integers(1, 60)
    withdrawn, arrivals = (rng.integers(-1, N_MESSAGES, n_events).astype(np.int32) for _ in range(2))
    events = np.sort(rng.integers(0, n_events, n))
    signs = rng.choice([-1, 1], n)
    messages = rng.integers(0, N_MESSAGES, n)
    for own, sign in ((withdrawn, -1), (arrivals, 1)):
        chosen = (rng.random(n) < 0.5) & (signs == sign) & (own[events] >= 0)
        messages[chosen] = own[events[chosen]]
    rows = {
        (int(event), int(slot), int(message), int(sign)): float(score)
        for event, slot, message, sign, score in zip(
            events, rng.integers(0, n_slots, n), messages, signs, rng.random(n), strict=True
        )
    }
    columns = (np.array(column, np.int32) for column in zip(*rows, strict=True))
    changes = Changes(*columns, np.array(list(rows.values())))
    nothing = np.zeros(n_events, np.int64)
    no_expiry = np.zeros(n_events + 1, np.int64), np.zeros(0, np.int32)
    net = net_kept(changes, Steps(nothing, arrivals, nothing, nothing, *no_expiry, withdrawn))
    left = {(event, slot) for event, slot, message, sign in rows if sign < 0 and message == withdrawn[event]}
    came = {(event, slot) for event, slot, message, sign in rows if sign > 0 and message == arrivals[event]}
    expected = {
        (event, slot, message, sign): score
        for (event, slot, message, sign), score in rows.items()
        if (event, slot) not in left & came or message != (withdrawn if sign < 0 else arrivals)[event]
    }
    told = zip(*(column.tolist() for column in net[:4]), strict=True)
    assert dict(zip(told, net.scores.tolist(), strict=True)) == expected
