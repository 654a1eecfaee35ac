"""How far long work has come: a bar where somebody looks on, a callback for programs, nothing elsewhere.

Work is told of while a broker's event is being applied, which no exception may stop. So what a callback raises is kept
and raised when the event is whole, and a bar that cannot be drawn is given up in silence.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from html import escape
from typing import Any, Literal, Protocol

from nearcast.compile_progress import PROGRESS, in_notebook, on_terminal
from nearcast.errors import InvalidInput

ProgressCallback = Callable[[int, int | None], object]
Progress = ProgressCallback | Literal[False] | None

AFTER_S = 1.0  # work that takes less needs no bar
EVERY_S = 0.1
LARGE = 4096  # rows; fewer are done before a bar could be drawn


class Bar(Protocol):
    """A bar that is being shown."""

    def show(self, text: str, done: int, total: int | None) -> None:
        """Draw it again."""

    def close(self) -> None:
        """Take it away."""


class Work:
    """Rows of one call that are done, and whoever is told of them."""

    __slots__ = ("_bar", "_began", "_callback", "_looked_on", "_part", "_raised", "_shown", "_text", "done", "total")

    def __init__(self, text: str, total: int | None, callback: ProgressCallback | None, looked_on: bool) -> None:
        self.done = 0
        self.total = total
        self._text = text
        self._callback = callback
        self._looked_on = looked_on
        self._bar: Bar | None = None
        self._began = self._shown = time.monotonic() if looked_on else 0.0
        self._part = 0
        self._raised: BaseException | None = None

    def add(self, n_rows: int) -> None:
        """`n_rows` more are done; never raises."""
        if not n_rows:
            return
        self.done += n_rows
        if self._callback is not None:
            try:
                self._callback(self.done, self.total)
            except BaseException as error:
                self._raised, self._callback = error, None
        if self._looked_on:
            self._show()

    def reach(self, n_rows: int | None) -> None:
        """All rows up to here are done, also those that were refused."""
        if n_rows is not None:
            self.add(max(0, n_rows - self.done))

    def told(self, done: int, _: int | None) -> None:
        """A callback for the part of the work that is under way, with its rows done."""
        self.add(done - self._part)
        self._part = done

    def begin_part(self) -> None:
        """Another part begins, whose rows are counted from 0."""
        self._part = 0

    def check(self) -> None:
        """Raise what the callback raised; the event is whole."""
        if self._raised is not None:
            error, self._raised = self._raised, None
            raise error

    def end(self) -> None:
        """The call is over."""
        global _drawn
        if self._bar is not None:
            _drawn = None
            PROGRESS.shown_by(None)
            _quietly(self._bar.close)
            self._bar = None

    def _show(self) -> None:
        global _drawn
        now = time.monotonic()
        if self._bar is None:
            if now - self._began < AFTER_S or _drawn is not None:
                return
            PROGRESS.end()
            self._bar = _new_bar()
            if self._bar is None:
                self._looked_on = False
                return
            _drawn = self
            PROGRESS.shown_by(self._note)
        if now - self._shown >= EVERY_S or self.done == self.total:
            self._shown = now
            self._draw(self._text)

    def _note(self, text: str) -> None:
        self._draw(f"{self._text}: {text}" if text else self._text)

    def _draw(self, text: str) -> None:
        bar = self._bar
        if bar is not None and not _quietly(lambda: bar.show(text, self.done, self.total)):
            self._looked_on = False


UNWATCHED = Work("", None, None, False)
_drawn: Work | None = None  # one bar at a time: two would overwrite each other


def watch(text: str, progress: Progress, total: int | None) -> Work:
    """Work that is told of as `progress` says: by a callback, not at all (False), or by a bar if anybody looks on.

    Raises
    ------
    InvalidInput
        For a `progress` that is none of these.
    """
    if progress is None:
        large = total is None or total > LARGE
        return Work(text, total, None, large and (on_terminal() or in_notebook()))
    if progress is False:
        return Work(text, total, None, False)
    if not callable(progress):
        raise InvalidInput("progress", progress, "must be None, False or a function of (done, total)")
    return Work(text, total, progress, False)


def _quietly(step: Callable[[], object]) -> bool:
    try:
        step()
    except Exception:  # a closed terminal, a notebook that went away
        return False
    return True


def _new_bar() -> Bar | None:
    try:
        return _NotebookBar() if in_notebook() else _TerminalBar()
    except Exception:
        return None


class _TerminalBar:
    """A line on standard error that goes when the work is done."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as Left

        text, count = TextColumn("{task.description}", markup=False), MofNCompleteColumn()
        columns = (text, BarColumn(24), count, TimeElapsedColumn(), Left())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task("", total=None)
        self._progress.start()

    def show(self, text: str, done: int, total: int | None) -> None:
        self._progress.update(self._task, description=text, completed=done, total=total)

    def close(self) -> None:
        self._progress.stop()


class _NotebookBar:
    """A piece of HTML that is exchanged for the next one; it needs no widgets."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str, done: int, total: int | None) -> None:
        of = "" if total is None else f" of {total:,}"
        bar = "<progress></progress>" if total is None else f'<progress value="{done}" max="{total}"></progress>'
        self._put(f"<div>{escape(text)} {bar} {done:,}{of}</div>", f"{text} {done:,}{of}")

    def close(self) -> None:
        self._put("", "")

    def _put(self, html: str, text: str) -> None:
        data = {"text/html": html, "text/plain": text}
        if self._handle is None:
            self._handle = sys.modules["IPython"].display.display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)
