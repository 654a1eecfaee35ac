"""Where kernels have to be compiled, a second process compiles what the next calls will need.

A broker whose first calls find the cache empty starts one `python -m nearcast.broker.warm`. That process takes in a
few messages, then does what a first publish needs for each kind of subscription that the caller has registered, while
the caller still registers. The caller finds it in the cache. Before each of these steps both take its claim, a file
that only one can make, so that none is compiled twice.

There is no second process on one core (`NUMBA_NUM_THREADS=1`), where the cache cannot be written, where Python does not
run as a program of its own, or where a process cannot be started. It ends with the caller, or half a minute after its
last step. README's dozen lines on an empty cache: 22 s on two cores instead of 28 (2026-11-18).
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np

from nearcast.columns.arena import Array
from nearcast.compile_progress import PROGRESS
from nearcast.kernel_cache import kernel_folder
from nearcast.model.kinds import Kind
from nearcast.model.query import MATCHES
from nearcast.space.space import Space
from nearcast.window.window import Window

_CONFIG: Any = numba.config  # its settings appear at run time, unknown to type checkers
E = TypeVar("E")
WAIT_S = 60.0  # for a step of the other process, before the caller compiles it for itself


def claim(folder: Path, step: str) -> bool:
    """Make a step one's own; False if the other process has it."""
    try:
        (folder / step).touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:
        pass  # nobody can claim anything there
    return True


def finish(folder: Path, step: str) -> None:
    """What the step needs is in the cache."""
    (folder / _done(step)).touch()


def _done(step: str) -> str:
    return f"{step}.done"


class CompileAhead:
    """The second process of this one: at most one is ever started."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.folder = Path()  # of claims
        self._owner = 0  # the process that started it: a fork of it leaves it alone
        self._steps: list[str] = []
        self._own: set[str] = set()  # steps that the caller claimed: nobody else ends them
        self._over = False

    @property
    def running(self) -> bool:
        """Is there something to wait for, or to be told?"""
        return self.process is not None and not self._over and self._owner == os.getpid()

    def begin(self, space: Space, window: Window | None) -> None:
        """A broker is there. Start the second process, if kernels had to be compiled for it."""
        if self.process is not None or self._over or not PROGRESS.n_compiled or not _is_possible():
            return
        self._owner = os.getpid()
        try:
            self.folder = Path(tempfile.mkdtemp(prefix="nearcast-"))
            life = None if window is None else (window.count, window.age)
            setting = json.dumps([space.metric, life, str(self.folder)])
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "nearcast.broker.warm", setting],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "NUMBA_NUM_THREADS": "1"},
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except (OSError, RuntimeError):
            self._over = True
        else:
            atexit.register(self.end)

    def forbid(self) -> None:
        """Start none: kernels are compiled by several processes already."""
        self._over = self._over or self.process is None

    def tell(self, kind: Kind, rows: Array) -> None:
        """These subscriptions are registered: to publish for them comes next."""
        if self.running and self.process is not None and self.process.stdin is not None:
            steps = {kind.label}
            if kind == Kind.NEAREST:
                steps = {f"{kind.label}-{MATCHES[mode]}" for mode in np.unique(rows["mode"])}
            new = sorted(steps.difference(self._steps))
            self._steps += new
            with contextlib.suppress(OSError):
                self.process.stdin.write("".join(f"{step}\n" for step in new).encode())
                self.process.stdin.flush()

    def in_turn(self, engines: Mapping[Kind, E], publishes: bool) -> Iterable[tuple[Kind, E]]:
        """The engines one after another, each when nobody else compiles for it.

        If the caller publishes with them what it had told, nothing is left to compile ahead.
        """
        return self._when_compiled(engines, publishes) if self.running else engines.items()

    def _when_compiled(self, engines: Mapping[Kind, E], publishes: bool) -> Iterator[tuple[Kind, E]]:
        for kind, engine in engines.items():
            self.wait(kind)
            yield kind, engine
        if publishes and self._steps:
            self.end()

    def wait(self, kind: Kind) -> None:
        """The caller is about to publish for a kind: let the other process end what it has begun of that."""
        until = time.monotonic() + WAIT_S
        for step in self._steps:
            if not step.startswith(kind.label) or step in self._own:
                continue
            if claim(self.folder, step):
                self._own.add(step)
            while step not in self._own and self._compiles(step) and time.monotonic() < until:
                time.sleep(0.02)

    def _compiles(self, step: str) -> bool:
        alive = self.process is not None and self.process.poll() is None
        return alive and not (self.folder / _done(step)).exists()

    def end(self) -> None:
        """Stop the second process."""
        if self.process is None or not self.running:
            return
        self._over = True
        with contextlib.suppress(OSError):
            self.process.kill()
        self.process.communicate()
        self._remove_folder()

    def _remove_folder(self) -> None:
        with contextlib.suppress(OSError):
            for step in self._steps:
                for name in (step, _done(step)):
                    (self.folder / name).unlink(missing_ok=True)
            self.folder.rmdir()


def _is_possible() -> bool:
    program = Path(sys.executable or "").name
    own = program.startswith("python") and not getattr(sys, "frozen", False)
    return own and _CONFIG.NUMBA_NUM_THREADS > 1 and os.access(kernel_folder(), os.W_OK)


COMPILE_AHEAD = CompileAhead()
