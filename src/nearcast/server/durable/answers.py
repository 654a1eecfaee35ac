"""Answers to requests that had an `Idempotency-Key`, remembered for a day: the same request again changes nothing."""

from __future__ import annotations

import msgspec

from nearcast.server.durable.apply import Outcome
from nearcast.server.durable.operations import Answer, Json, Share, told

KEPT_S = 24 * 3600.0


class Remembered(msgspec.Struct):
    """One answer, whole when the last part of its request was."""

    digest: str
    at: float
    answer: Answer
    whole: bool = False


class Answers:
    """Answers by key; the oldest first."""

    def __init__(self) -> None:
        self._known: dict[str, Remembered] = {}

    def get(self, key: str, now: float) -> Remembered | None:
        """The answer to an earlier request with this key."""
        found = self._known.get(key)
        return found if found is not None and found.whole and found.at + KEPT_S > now else None

    def follow(self, outcome: Outcome, epoch: str) -> None:
        """Remember what the requests of an event were answered."""
        for share in outcome.run.shares:
            if share.key:
                self._note(share, outcome, epoch)

    def _note(self, share: Share, outcome: Outcome, epoch: str) -> None:
        self._forget(share.at)
        known = self._known.get(share.key)
        if known is None or known.whole:
            self._known.pop(share.key, None)
            known = self._known[share.key] = Remembered(share.digest, share.at, Answer("", 0))
        known.answer = extend(known.answer, share, outcome, epoch)
        known.whole = share.last

    def remember(self, key: str, answer: Remembered) -> None:
        """Remember a whole answer."""
        self._forget(answer.at)
        self._known[key] = answer

    def _forget(self, now: float) -> None:
        while self._known and next(iter(self._known.values())).at + KEPT_S <= now:
            del self._known[next(iter(self._known))]

    def state(self) -> list[tuple[str, Remembered]]:
        """For a snapshot."""
        return list(self._known.items())

    def load(self, state: list[tuple[str, Remembered]]) -> None:
        """From a snapshot."""
        self._known = dict(state)


def extend(answer: Answer, share: Share, outcome: Outcome, epoch: str) -> Answer:
    """An answer after one more event of its request."""
    before: list[Json] = [{"row": row, "field": field, "reason": reason} for row, field, reason in share.rejects]
    refused, late = told(outcome.rejects, share), told(outcome.late, share)
    rejects = sorted([*answer.rejects, *before, *refused], key=lambda reject: int(reject["row"]))
    accepted = answer.accepted + share.n - len(refused) - len(late)
    return Answer(f"{epoch}.{outcome.event}", accepted, [*answer.late, *late], rejects)
