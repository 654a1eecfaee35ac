"""A workload and somebody's answers go in; how many were right comes out, or `Refused` with the first that is wrong.

Every row is checked for being possible at all: the subscription and the message exist, the message has come, nothing is
told twice, nothing leaves that was not there. A sample of subscriptions, all of them in small tasks, is compared with
the brute force event by event: nothing may be missing and nothing invented. Who is sampled is drawn when the checker
runs, so that no entry can know it.
"""

from __future__ import annotations

import math
import secrets
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.open.truth import TOLERANCE, Truth
from bench.open.workload import Workload

SAMPLE = 1_000
ANSWERS = pa.schema(
    [("event", pa.int64()), ("subscription", pa.int64()), ("message", pa.int64()), ("sign", pa.string())]
)  # event: the id of the message that came


class Refused(Exception):
    """Answers that are wrong."""


class Verified(NamedTuple):
    """What was looked at, all of it right."""

    rows: int
    subscriptions: int  # compared with the brute force
    of: int


def check(workload: Workload, answers: pa.Table, sample: int = SAMPLE, seed: int | None = None) -> Verified:
    """Judge answers; `seed` chooses the sample, at random if None.

    Raises
    ------
    Refused
        With the first thing that is wrong.
    """
    rows = _well_formed(answers)
    _possible(workload, rows)
    n = workload.subscriptions.num_rows
    rng = np.random.default_rng(secrets.randbits(64) if seed is None else seed)
    chosen = np.arange(n) if n <= sample else np.sort(rng.choice(n, sample, replace=False))
    truth = Truth(workload)
    order = np.argsort(rows["subscription"].to_numpy(), kind="stable")
    told = rows.take(pa.array(order))
    owners = told["subscription"].to_numpy()
    for asked in workload.subscriptions.take(pa.array(chosen)).to_pylist():
        first, last = np.searchsorted(owners, asked["id"], "left"), np.searchsorted(owners, asked["id"], "right")
        mine = told.slice(first, last - first).to_pylist()
        (_kept_right if workload.task.keeps else _told_right)(truth, asked, mine)
    return Verified(rows.num_rows, chosen.size, n)


def _well_formed(answers: pa.Table) -> pa.Table:
    missing = [name for name in ANSWERS.names if name not in answers.column_names]
    if missing and answers.num_rows:
        raise Refused(f"answers lack the column {missing[0]}")
    if not answers.num_rows:
        return ANSWERS.empty_table()
    try:
        rows = answers.select(ANSWERS.names).cast(ANSWERS)
    except pa.ArrowInvalid as error:
        raise Refused(f"answers cannot be read: {error}") from error
    if any(column.null_count for column in rows.columns):
        raise Refused("a value is missing")
    return rows


def _possible(workload: Workload, rows: pa.Table) -> None:
    """Rows speak of what there is, of messages that have come, and say nothing twice."""
    task = workload.task
    wrong = {
        "a sign is neither + nor -": pc.invert(pc.is_in(rows["sign"], pa.array(["+", "-"]))),
        "- has no meaning for this kind": pc.and_(pc.equal(rows["sign"], "-"), not task.keeps),
        "no such subscription": pc.invert(pc.is_in(rows["subscription"], workload.subscriptions["id"])),
        "no such message": pc.invert(pc.is_in(rows["message"], workload.messages["id"])),
        "an event is the id of a message that comes": pc.or_(
            pc.less_equal(rows["event"], task.before), pc.greater(rows["event"], task.before + task.published)
        ),
        "a message is told before it comes": pc.greater(rows["message"], rows["event"]),
        "a message is told after it left": pc.and_(
            pc.equal(rows["sign"], "+"), pc.less_equal(pc.add(rows["message"], task.before), rows["event"])
        ),
    }
    if not task.keeps:
        wrong["a message is told in another event than its own"] = pc.not_equal(rows["message"], rows["event"])
    for reason, bad in wrong.items():
        where = pc.index(bad, True).as_py()
        if where >= 0:
            raise Refused(f"{reason}: row {where}, {rows.slice(where, 1).to_pylist()[0]}")
    keys = rows.group_by(["event", "subscription", "message"]).aggregate([("sign", "count")])
    if keys.num_rows != rows.num_rows:
        twice = keys.filter(pc.greater(keys["sign_count"], 1)).slice(0, 1).to_pylist()[0]
        raise Refused(f"told twice in one event: {twice}")


def _told_right(truth: Truth, asked: dict[str, Any], mine: list[dict[str, Any]]) -> None:
    """Within, similar: every message that matches, once, and no other."""
    found, before = truth.matches(asked), truth.task.before
    late = found.rows >= before
    scores = dict(zip((found.rows[late] + 1).tolist(), found.scores[late].tolist(), strict=True))
    told = {row["message"] for row in mine}
    tau = asked.get("tau")
    sure = {id for id, score in scores.items() if tau is None or score > tau * (1 + TOLERANCE)}
    if missing := sorted(sure - told):
        raise Refused(f"subscription {asked['id']} was not told of message {missing[0]}")
    if invented := sorted(told - scores.keys()):
        raise Refused(f"subscription {asked['id']} was told of message {invented[0]}, which does not match")


def _kept_right(truth: Truth, asked: dict[str, Any], mine: list[dict[str, Any]]) -> None:
    """The k best: what updates make of the result is the right list after every event."""
    found = truth.matches(asked)
    scores = dict(zip((found.rows + 1).tolist(), found.scores.tolist(), strict=True))
    by_event: dict[int, list[dict[str, Any]]] = {}
    for row in mine:
        by_event.setdefault(row["event"], []).append(row)
    states = truth.lists(asked)
    _, right = next(states)
    held = {-minus + 1 for _, minus in right}
    for event, right in states:
        id = event + truth.task.before + 1
        _apply(asked["id"], id, held, by_event.pop(id, []))
        _same(asked["id"], id, held, scores, [-minus for minus, _ in right])
    if by_event:
        id, rows = min(by_event.items())
        raise Refused(f"subscription {asked['id']}: nothing changes with message {id}, but it was told {rows[0]}")


def _apply(owner: int, event: int, held: set[int], rows: list[dict[str, Any]]) -> None:
    for row in sorted(rows, key=lambda row: row["sign"] == "+"):  # what leaves first
        if (row["message"] in held) == (row["sign"] == "+"):
            state = "is there already" if row["sign"] == "+" else "is not there"
            raise Refused(f"subscription {owner}, message {event}: {row['sign']} {row['message']}, which {state}")
        (held.add if row["sign"] == "+" else held.discard)(row["message"])


def _same(owner: int, event: int, held: set[int], scores: dict[int, float], right: list[float]) -> None:
    """Scores in order, within the tolerance: who stands behind equal ones does not matter."""
    strange = [id for id in held if id not in scores]
    if strange:
        raise Refused(f"subscription {owner}, message {event}: {strange[0]} is in the result and does not qualify")
    ours = sorted((scores[id] for id in held), reverse=True)
    if len(ours) != len(right):
        raise Refused(f"subscription {owner}, message {event}: {len(ours)} results, {len(right)} are right")
    for mine, best in zip(ours, right, strict=True):
        if not math.isclose(mine, best, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            raise Refused(f"subscription {owner}, message {event}: a result scores {mine}, {best} is right")
