"""The decorators of kernels for rivals: compiled code is kept by the digest of their sources and of the package's."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from nearcast.jit import PACKAGE, compiled, kernel_folder

F = TypeVar("F", bound=Any)

_FOLDER = kernel_folder(PACKAGE, Path(__file__).parent)


def kernel(function: F) -> F:
    """As `nearcast.jit.kernel`."""
    return compiled(function, _FOLDER)


def allocating(function: F) -> F:
    """As `nearcast.jit.allocating`."""
    return compiled(function, _FOLDER, counts=True)
