"""Who has fallen silent: subscriptions of which nothing was heard for long enough, each told once."""

from __future__ import annotations

from collections.abc import Iterable


class Silence:
    """When each subscription was last heard of, by the clock of the wall, so that a restart goes on counting."""

    def __init__(self, quiet: float | None, names: Iterable[str], now: float, known: dict[str, float | None]) -> None:
        self._quiet = quiet
        self.heard: dict[str, float | None] = {name: known.get(name, now) for name in names}  # None: it was told

    def hear(self, name: str, now: float) -> None:
        """Something came."""
        if name in self.heard:
            self.heard[name] = now

    def due(self, now: float) -> str | None:
        """One whose silence has to be told; whoever tells it says `told`."""
        if self._quiet is None:
            return None
        silent = (name for name, at in self.heard.items() if at is not None and now - at >= self._quiet)
        return next(silent, None)

    def told(self, name: str) -> None:
        """It was told; nothing more until something comes."""
        self.heard[name] = None

    def wait(self, now: float) -> float | None:
        """Seconds until the next one is due; None if none can be."""
        left = [at for at in self.heard.values() if at is not None]
        return None if self._quiet is None or not left else max(0.0, min(left) + self._quiet - now)
