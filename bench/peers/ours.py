"""Nearcast as a peer of the others: the same workload, the same batches."""

from __future__ import annotations

import time

import pyarrow as pa

import nearcast
from bench.open.entry import as_subscriptions
from bench.peers.base import Pairs, Peer
from nearcast import Broker, Space, Window


class Nearcast(Peer):
    """A broker; what it keeps is followed by its updates."""

    name = "Nearcast"

    @property
    def version(self) -> str:
        return nearcast.__version__

    def load(self) -> None:
        task = self.task
        space = Space(task.bounds, metric="euclidean", max_distance=task.max_distance)
        self.broker = Broker(space, window=Window(count=task.before))
        self.broker.publish(self.workload.messages.slice(0, task.before))
        self.held: Pairs = set()
        self._apply(self.broker.subscribe_many(as_subscriptions(self.workload)).to_arrow())

    def _apply(self, updates: pa.Table) -> None:
        columns = (updates[name].to_pylist() for name in ("subscription", "message", "sign"))
        for subscription, message, sign in zip(*columns, strict=True):
            (self.held.add if sign == "+" else self.held.discard)((subscription, message))

    def publish(self, batch: pa.Table) -> None:
        self.updates = self.broker.publish(batch).to_arrow()

    def pairs(self) -> Pairs:
        if self.task.keeps:
            self._apply(self.updates)
            return set(self.held)
        columns = (self.updates[name].to_pylist() for name in ("subscription", "message"))
        return set(zip(*columns, strict=True))

    def cpu_s(self) -> float:
        return time.process_time()

    def close(self) -> None:
        del self.broker
