"""How somebody wants to be told: digests, throttles, and a word when nothing comes."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from nearcast.errors import InvalidInput

_LONGEST_S = 366 * 86_400.0


class Delivery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of a connection or a webhook.

    Parameters
    ----------
    every
        A digest: at most one frame in this many seconds, with the net change since the last.
    max_per
        A throttle ``[n, seconds]``: at most n frames in any such time; what waits is told as its net change.
    quiet
        Tell when nothing came for a subscription for this many seconds, once until something comes.
    """

    every: float | None = None
    max_per: tuple[int, float] | None = None
    quiet: float | None = None

    def __post_init__(self) -> None:
        for name in ("every", "quiet"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= _LONGEST_S:
                raise InvalidInput(name, value, f"must be more than 0 and at most {_LONGEST_S:.0f} seconds")
        if self.max_per is not None and not (self.max_per[0] >= 1 and 0 < self.max_per[1] <= _LONGEST_S):
            raise InvalidInput("max_per", list(self.max_per), "must be [n, seconds], both positive")

    @property
    def nets(self) -> bool:
        """Whether frames hold net changes rather than every update."""
        return self.every is not None or self.max_per is not None


def delivery_of(values: dict[str, Any]) -> Delivery:
    """Options as they are given in JSON.

    Raises
    ------
    InvalidInput
        For an option that is not known, or a value out of range.
    """
    try:
        return msgspec.convert(values, Delivery)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, InvalidInput):
            raise error.__cause__ from None
        raise InvalidInput("delivery", values, f"must fit: {error}") from None


class Pace:
    """When the next frame may go."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        most = 1 if delivery.max_per is None else delivery.max_per[0]
        self._sent: deque[float] | None = deque(maxlen=most) if delivery.nets else None  # it takes 0.7 kB

    def wait(self, now: float) -> float:
        """Seconds until a frame may go."""
        if self._sent is None:
            return 0.0
        waits = [0.0]
        if self._delivery.every is not None and self._sent:
            waits.append(self._sent[-1] + self._delivery.every - now)
        if self._delivery.max_per is not None and len(self._sent) == self._sent.maxlen:
            waits.append(self._sent[0] + self._delivery.max_per[1] - now)
        return max(waits)

    def sent(self, now: float) -> None:
        """A frame went."""
        if self._sent is not None:
            self._sent.append(now)
