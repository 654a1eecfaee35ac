"""The `kernel` decorator: functions over flat arrays become native code, compiled once and kept on disk.

Numba notices a change in the file of a kernel, but not in a helper or constant that the kernel takes from another
file, and would go on answering with the old one. Compiled code is therefore kept in a folder named by a digest of all
sources of the package, so that any change starts a new folder.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])

_CONFIG: Any = numba.config  # its settings appear at run time, unknown to type checkers

NEED_ROOM = -1  # a reading kernel's answer when its output array is too small: double it and ask again


def kernel_folder(*packages: Path) -> str:
    """Where compiled code of exactly these sources lives; `NEARCAST_CACHE` names another parent folder."""
    digest = hashlib.sha256()
    for package in packages:
        for source in sorted(package.rglob("*.py")):
            digest.update(source.relative_to(package).as_posix().encode())
            digest.update(source.read_bytes())
    parent = os.environ.get("NEARCAST_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "nearcast"
    )
    checked = "-checked" if _CONFIG.BOUNDSCHECK else ""
    return os.path.join(parent, "kernels-" + digest.hexdigest()[:16] + checked)


PACKAGE = Path(__file__).parent
_FOLDER = kernel_folder(PACKAGE)
KERNELS: list[Any] = []  # every kernel, so that tests can see that each was compiled for one signature only


def kernel(function: F) -> F:
    """Compile `function` with Numba: cached on disk, free of the GIL, exact IEEE arithmetic."""
    made = compiled(function, _FOLDER)
    KERNELS.append(made)
    return made


def compiled(function: F, folder: str) -> F:
    """The same with another folder: for kernels outside of the package, which change with their own sources too."""
    before = _CONFIG.CACHE_DIR
    _CONFIG.CACHE_DIR = folder  # read while decorating only; put back so that nothing global changes
    try:
        made: Any = numba.njit(cache=True, nogil=True)(function)
    finally:
        _CONFIG.CACHE_DIR = before
    return cast(F, made)
