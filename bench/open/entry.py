"""Nearcast's own entry: the updates of a workload, and what they took."""

from __future__ import annotations

import time
from typing import NamedTuple

import pyarrow as pa

from bench.open.check import ANSWERS
from bench.open.workload import Workload
from nearcast import Broker, Space, Window

BATCH = 1_000


class Run(NamedTuple):
    """Answers and seconds."""

    answers: pa.Table
    load_cpu_s: float  # messages that were there before, and subscriptions
    cpu_s: float  # the messages that came
    wall_s: float
    slowest_s: float  # wall time of the slowest batch


def answer(workload: Workload, batch: int = BATCH) -> Run:
    """Answer all; messages come `batch` at a time, as Arrow tables."""
    task, began = workload.task, time.process_time()
    space = Space(task.bounds, metric="euclidean", max_distance=task.max_distance)
    broker = Broker(space, window=Window(count=task.before))
    messages = workload.messages.append_column("ts", workload.messages["id"])  # so that updates tell their event
    for at in range(0, task.before, 10_000):
        broker.publish(messages.slice(at, min(10_000, task.before - at)))
    asked = broker.subscribe_many(as_subscriptions(workload))
    if asked.rejects:
        raise AssertionError(f"refused: {asked.rejects[0]}")
    load = time.process_time() - began
    tables, cpu, wall, slowest = [], 0.0, 0.0, 0.0
    for at in range(task.before, task.before + task.published, batch):
        part = messages.slice(at, min(batch, task.before + task.published - at))
        started = time.perf_counter(), time.process_time()
        updates = broker.publish(part)
        took = time.perf_counter() - started[0]
        cpu += time.process_time() - started[1]
        wall, slowest = wall + took, max(slowest, took)
        tables.append(updates.to_arrow())
    answers = pa.concat_tables([ANSWERS.empty_table(), *map(_events_of, tables)])
    return Run(answers, load, cpu, wall, slowest)


def as_subscriptions(workload: Workload) -> pa.Table:
    """The subscriptions of a task as Nearcast reads them."""
    table, kind, n = workload.subscriptions, workload.task.kind, workload.subscriptions.num_rows
    named = kind.split("_")[0]
    table = table.append_column("kind", pa.repeat(pa.scalar(named), n))
    if kind == "similar":
        table = table.append_column("measure", pa.repeat(pa.scalar("overlap"), n))
    if named == "nearest":
        table = table.append_column("match", pa.repeat(pa.scalar(kind.removeprefix("nearest_")), n))
    return table


def _events_of(updates: pa.Table) -> pa.Table:
    """`ts` is the clock after the event, and messages carry their number as time."""
    return pa.table(
        {
            "event": updates["ts"].cast(pa.int64()),
            "subscription": updates["subscription"].cast(pa.int64()),
            "message": updates["message"].cast(pa.int64()),
            "sign": updates["sign"].cast(pa.string()),
        }
    ).cast(ANSWERS)
