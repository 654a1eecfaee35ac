"""Says on a terminal that kernels are being compiled, and how many are done: the one slow moment of a new machine."""

from __future__ import annotations

import logging
import sys
from typing import Any

TEXT = "compiling kernels, once, about a minute"

_log = logging.getLogger("nearcast")


class CompileProgress:
    """A bar that appears with the first kernel of a call that must be compiled, and goes when the call is over."""

    def __init__(self) -> None:
        self.n_compiled = 0
        self._bar: Any = None
        self._told = False

    def begin(self) -> None:
        """A kernel is about to be compiled."""
        if self._bar is None and _interactive():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(24), TextColumn("{task.completed}"))
            self._bar = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
            self._bar.add_task(TEXT, total=None)
            self._bar.start()
        elif not self._told:
            _log.info(TEXT)
        self._told = True

    def advance(self) -> None:
        """A kernel has been compiled."""
        self.n_compiled += 1
        if self._bar is not None:
            self._bar.advance(0)

    def end(self) -> None:
        """The call that needed kernels is over."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _interactive() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


PROGRESS = CompileProgress()
