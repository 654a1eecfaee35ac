"""What a peer must do: load a workload, answer batch by batch, and say what it took."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias

import pyarrow as pa

from bench.open.workload import Workload

Pairs: TypeAlias = set[tuple[int, int]]  # subscription, message


class Unable(Exception):
    """This system cannot be run here, or cannot express the question."""


class Peer(ABC):
    """A system beside Nearcast."""

    name = ""
    kinds: tuple[str, ...] = ("within", "similar", "topk", "nearest_all", "nearest_any")

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.task = workload.task

    @property
    @abstractmethod
    def version(self) -> str:
        """Of the system."""

    @abstractmethod
    def load(self) -> None:
        """Take subscriptions, and the messages that are live before; with all indexes that help."""

    @abstractmethod
    def publish(self, batch: pa.Table) -> None:
        """Messages come, and the question is asked until all its rows are there; this is what is timed."""

    @abstractmethod
    def pairs(self) -> Pairs:
        """The rows of the last question: who is told of which; for the k best, all results as they are now."""

    @abstractmethod
    def cpu_s(self) -> float:
        """CPU seconds that the system has used so far, in whichever process."""

    @abstractmethod
    def close(self) -> None:
        """End it."""
