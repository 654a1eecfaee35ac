"""One call at a time, and no event by halves: what stands between callers and a broker's arrays.

Kernels run without the GIL, so two calls at once would write the same arrays. Calls of other threads therefore wait
for each other, and a call from inside a call (a callback, a signal handler) is refused, since it could only wait for
itself.

An event is either there or not. All that can be refused is refused before the first write; from then on the event is
being applied, and a mark says so. While it is, handlers of signals wait: Ctrl-C is answered when the event is whole.
Whatever stops it all the same (no memory, an exception thrown in from another thread, a second signal) leaves the mark
behind, and every later call raises `BrokenBroker` instead of answering from arrays that are half written.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
import threading
import weakref
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from nearcast.compile_progress import PROGRESS
from nearcast.errors import BrokenBroker, NestedCall

# What `signal` wraps: it turns every number into an enum and back, 3 us a call instead of 0.06 (2026-11).
_signal: Any = importlib.import_module("_signal")

P = ParamSpec("P")
R = TypeVar("R")
Handler = Callable[[int, FrameType | None], Any]

_NAMES = (
    "SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGUSR1", "SIGUSR2", "SIGCHLD",
    "SIGWINCH", "SIGIO", "SIGPIPE", "SIGURG", "SIGCONT", "SIGTSTP", "SIGBREAK",
)  # fmt: skip
_SIGNALS = tuple(int(getattr(signal, name)) for name in _NAMES if hasattr(signal, name))
_MAIN = threading.main_thread().ident  # handlers of signals run in this thread only


class Guard:
    """The lock of a broker, and the mark of an event that is being applied."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._under_way: str | None = None  # the call whose event is being applied, or was when it stopped
        self._stopped_by = ""  # the name of the exception
        self._call = ""
        self._held = _HeldSignals()
        _GUARDS.add(self)

    def turn(self) -> threading.RLock:
        """The lock to enter: by `with` itself, which no signal can come between."""
        if self._lock._is_owned():  # type: ignore[attr-defined]
            raise NestedCall("a call of this broker is under way in the same thread; make the next one after it")
        return self._lock

    def check(self) -> None:
        """Raise `BrokenBroker` if an event stopped half-way."""
        if self._under_way is not None:
            raise BrokenBroker(self._under_way, self._stopped_by)

    def applying(self, call: str) -> Guard:
        """Enter this by `with` around all that writes to the broker."""
        self._call = call
        return self

    def __enter__(self) -> None:
        self._held.hold()
        self._under_way = self._call

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self._under_way = None
        else:
            self._stopped_by = type(error).__name__
        self._held.let_go()

    def __getstate__(self) -> Any:
        raise TypeError("a broker cannot be copied or pickled; write a snapshot and restore it")

    def _renew(self) -> None:
        """After a fork: whoever held the lock is not in this process. What it was applying stays half applied."""
        self._lock = threading.RLock()


class _HeldSignals:
    """Handlers that wait for the end of an event: the first call of each is remembered, a second one acts at once."""

    def __init__(self) -> None:
        self._seen: list[Any] = []  # what stood at every signal when this was last looked at
        self._found: list[tuple[int, Handler]] = []  # the handlers among these, but for `_wait`
        self._handlers: dict[int, Handler] = {}  # by signal: whose place `_wait` has taken
        self._waiting: dict[int, FrameType | None] = {}
        self._holding = False

    def hold(self) -> None:
        """Take the place of every handler; in threads other than the main one there is nothing to hold."""
        if threading.get_ident() != _MAIN:
            return
        try:
            seen = [*map(_signal.getsignal, _SIGNALS)]
            if seen != self._seen:
                pairs = zip(_SIGNALS, seen, strict=True)
                self._found = [pair for pair in pairs if callable(pair[1]) and pair[1] != self._wait]
                self._seen = seen
            for number, handler in self._found:
                self._handlers[number] = handler
                _signal.signal(number, self._wait)
        except ValueError:  # the main thread of another interpreter: no signal gets here
            self._handlers.clear()
        except BaseException:
            self._put_back()
            raise
        self._holding = True

    def _wait(self, number: int, frame: FrameType | None) -> None:
        if self._holding and number not in self._waiting:
            self._waiting[number] = frame
        else:
            self._handlers[number](number, frame)

    def let_go(self) -> None:
        """Put the handlers back and call those whose signals came."""
        if not self._holding:
            return
        self._holding = False
        waiting = self._waiting
        handlers = dict(self._handlers) if waiting else {}
        try:
            self._put_back()
        finally:
            self._waiting = {}
            for number, frame in waiting.items():
                handlers[number](number, frame)

    def _put_back(self) -> None:
        for number, handler in list(self._handlers.items()):
            if _signal.getsignal(number) == self._wait:  # unless somebody set another one meanwhile
                _signal.signal(number, handler)
            del self._handlers[number]


class _Guarded(Protocol):
    _guard: Guard


B = TypeVar("B", bound=_Guarded)


def one_at_a_time(method: Callable[Concatenate[B, P], R]) -> Callable[Concatenate[B, P], R]:
    """A method of a broker that waits for calls of other threads, and refuses a broker that is broken."""

    @functools.wraps(method)
    def call(self: B, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._guard.turn():
            self._guard.check()
            try:
                return method(self, *args, **kwargs)
            finally:
                PROGRESS.end()

    return call


_GUARDS: weakref.WeakSet[Guard] = weakref.WeakSet()


def _after_fork() -> None:
    for guard in list(_GUARDS):
        guard._renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
