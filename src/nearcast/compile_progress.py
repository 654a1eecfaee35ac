"""Says on a terminal or in a notebook that kernels are being compiled: the one slow moment of a new machine.

Where nobody looks on, in a service or a script whose output goes to a file, only the log is told.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

TEXT = "compiling kernels, once, about a minute"

_log = logging.getLogger("nearcast")


class CompileProgress:
    """A bar that appears with the first kernel of a call that must be compiled, and goes when the call is over."""

    def __init__(self, new_bar: Callable[[], Any] | None = None) -> None:
        self.n_compiled = 0
        self._new_bar = new_bar or _new_bar
        self._bar: Any = None
        self._told = False
        self._note: Callable[[str], None] | None = None

    def shown_by(self, note: Callable[[str], None] | None) -> None:
        """Another bar is there: it takes a note while kernels are being compiled."""
        self._note = note

    def begin(self) -> None:
        """A kernel is about to be compiled."""
        if self._note is not None:
            self._note(TEXT)
            return
        if self._bar is not None:
            return
        if on_terminal() or (in_notebook() and find_spec("ipywidgets") is not None):
            self._bar = self._new_bar()
            self._bar.start()
        elif not self._told:
            _log.info(TEXT)
            if in_notebook():  # where a bar needs ipywidgets
                print(TEXT, file=sys.stderr)
        self._told = True

    def advance(self) -> None:
        """A kernel has been compiled."""
        self.n_compiled += 1
        if self._note is not None:
            self._note("")
        if self._bar is not None:
            self._bar.advance(0)

    def end(self) -> None:
        """The call that needed kernels is over."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _new_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(24), TextColumn("{task.completed}"), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task(TEXT, total=None)
    return bar


def on_terminal() -> bool:
    """Does standard error go to a terminal?"""
    return sys.stderr is not None and sys.stderr.isatty()


def in_notebook() -> bool:
    """Is this a kernel of Jupyter? Its output is no terminal, but somebody reads it."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and type(ipython.get_ipython()).__name__ == "ZMQInteractiveShell"


PROGRESS = CompileProgress()
