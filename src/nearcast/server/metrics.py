"""Numbers for Prometheus: what waits, how long steps take, who is slow."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from nearcast.server.durable.apply import Outcome
from nearcast.server.durable.writer import Committed

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_SIZES = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000)


class Metrics:
    """All of them, in a registry of their own."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.replayed = Gauge("nearcast_replayed_events", "Events replayed at the start", registry=registry)
        self.waiting = Gauge("nearcast_waiting_requests", "Requests that wait for the writer", registry=registry)
        self.subscriptions = Gauge("nearcast_subscriptions", "Subscriptions", registry=registry)
        self.messages_live = Gauge("nearcast_message_bodies", "Messages whose bodies are kept", registry=registry)
        self.event = Gauge("nearcast_event", "The number of the last event", registry=registry)
        self.messages = Counter("nearcast_messages", "Messages taken in", registry=registry)
        self.updates = Counter("nearcast_updates", "Updates emitted", registry=registry)
        self.rejects = Counter("nearcast_rejects", "Rows refused by the broker", registry=registry)
        self.late = Counter("nearcast_late", "Messages that were late", registry=registry)
        self.batch = Histogram("nearcast_batch_rows", "Rows of a batch", buckets=_SIZES, registry=registry)
        self.sync = Histogram("nearcast_sync_seconds", "fdatasync of a batch", buckets=_SECONDS, registry=registry)
        self.match = Histogram("nearcast_match_seconds", "Matching of a batch", buckets=_SECONDS, registry=registry)
        self.commit = Histogram("nearcast_commit_seconds", "A batch in all", buckets=_SECONDS, registry=registry)
        self.requests = Counter("nearcast_requests", "HTTP requests", ["method", "status"], registry=registry)
        self._answered: dict[tuple[str, int], Counter] = {}
        self.connections = Gauge("nearcast_connections", "Open connections", ["kind"], registry=registry)
        self.pending_bytes = Gauge("nearcast_pending_bytes", "Bytes that wait for connections", registry=registry)
        self.frames = Counter("nearcast_frames", "Frames pushed", registry=registry)
        self.push = Histogram("nearcast_push_seconds", "From commit to frame", buckets=_SECONDS, registry=registry)
        self.conflations = Counter("nearcast_conflations", "Backlogs replaced by their net change", registry=registry)
        self.gaps = Counter("nearcast_gaps", "Backlogs replaced by a snapshot", registry=registry)
        self.slow = Counter("nearcast_closed_slow", "Connections closed because nothing was read", registry=registry)
        self.hooks = Counter("nearcast_webhook_attempts", "Requests to webhooks", ["outcome"], registry=registry)
        self.dead = Counter("nearcast_webhook_dead_letters", "Deliveries given up", registry=registry)

    def answered(self, method: str, status: int) -> None:
        """Count a request. To look up its labels would take longer than to count."""
        counter = self._answered.get((method, status))
        if counter is None:
            counter = self._answered[method, status] = self.requests.labels(method, status)
        counter.inc()

    def committed(self, committed: Committed) -> None:
        """Count what a batch did."""
        if not committed.n_rows:
            return
        self.batch.observe(committed.n_rows)
        self.sync.observe(committed.sync_seconds)
        self.match.observe(committed.match_seconds)
        self.commit.observe(committed.seconds)
        for step in committed.steps:
            if isinstance(step, Outcome):
                if step.run.is_messages:
                    self.messages.inc(step.run.content.num_rows)
                self.updates.inc(step.updates.num_rows)
                self.rejects.inc(len(step.rejects))
                self.late.inc(len(step.late))

    def text(self) -> bytes:
        """The page that Prometheus reads."""
        return generate_latest(self.registry)
