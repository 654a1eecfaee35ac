"""Where compiled kernels are kept: a folder for each module, named by a digest of all that its kernels are made of.

Numba notices a change in the file of a kernel, but not in a helper or constant that the kernel takes from another
file, and would go on answering with the old one. A module's folder is therefore named by its own source together with
those of all modules that it imports, directly or not. An edit makes a new folder for the modules that it can reach,
and for no others; going back to an earlier version finds what was compiled then.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import re
import shutil
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator

from nearcast.compile_progress import PROGRESS
from nearcast.inner_code import is_inner, read_inner

_CONFIG: Any = numba.config  # its settings appear at run time, unknown to type checkers
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([\w.]+))", re.M)
_UNUSED_DAYS = 30  # after which folders of earlier versions go


def kernel_folder() -> Path:
    """The folder over all modules' folders; `NEARCAST_CACHE` names its parent."""
    parent = os.environ.get("NEARCAST_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "nearcast"
    )
    return Path(parent) / ("kernels-checked" if _CONFIG.BOUNDSCHECK else "kernels")


@cache
def module_digest(module: str) -> str:
    """A digest of a module's source and those of all modules of its package that it imports, directly or not."""
    digest = hashlib.sha256()
    for name in sorted(_reached(module)):
        digest.update(name.encode() + b"\0" + _source(name) + b"\0")
    return digest.hexdigest()[:16]


def _reached(module: str) -> set[str]:
    reached = {__name__}  # which shapes no code, nor does what it imports
    left = [module]
    while left:
        name = left.pop()
        if name not in reached and _path(name) is not None:
            reached.add(name)
            left += _imported(name)
    return reached - {__name__}


@cache
def _imported(module: str) -> list[str]:
    """The modules that a module names in its imports; what a package is asked for may be one of its modules."""
    names = []
    for package, items, plain in _IMPORT.findall(_source(module).decode()):
        names.append(package or plain)
        names += [f"{package}.{item}" for item in re.findall(r"\w+", items) if package]
    return names


@cache
def _source(module: str) -> bytes:
    path = _path(module)
    return b"" if path is None else path.read_bytes()


@cache
def _path(module: str) -> Path | None:
    """The file of a module, if it belongs to a package that has kernels."""
    top, *inner = module.split(".")
    root = _roots.get(top)
    if root is None:
        return None
    place = root.parent.joinpath(*inner)
    options = (place / "__init__.py", place.with_suffix(".py")) if inner else (root,)
    return next((path for path in options if path.is_file()), None)


_roots = {"nearcast": Path(__file__).with_name("__init__.py")}  # the first file of each package that has kernels


def _know_root(function: Callable[..., Any]) -> None:
    """Remember where the package, or the single module, of a function lies."""
    top, *inner = function.__module__.split(".")
    if top not in _roots:
        module = sys.modules[function.__module__]
        path = Path(getattr(module, "__file__", None) or function.__code__.co_filename)
        packaged = bool(inner)
        for _ in inner[:-1] if path.name != "__init__.py" else inner:
            path = path.parent
        _roots[top] = path.parent / "__init__.py" if packaged else path
        _path.cache_clear()


class _Locator(_CacheLocator):
    """Tells Numba the folder of a kernel's module; the folder's name says all that could be out of date."""

    def __init__(self, function: Callable[..., Any]) -> None:
        _know_root(function)
        self._line = function.__code__.co_firstlineno
        self._module = function.__module__
        self._py_file = function.__code__.co_filename  # named when Numba warns that a kernel cannot be kept
        self._folder = kernel_folder() / f"{self._module}-{module_digest(self._module)}"

    def get_cache_path(self) -> str:
        return str(self._folder)

    def ensure_cache_path(self) -> None:
        if not self._folder.is_dir():
            self._folder.mkdir(parents=True, exist_ok=True)
            self._drop_unused()

    def _drop_unused(self) -> None:
        for earlier in self._folder.parent.glob(f"{self._module}-*"):
            if earlier.stat().st_mtime < time.time() - _UNUSED_DAYS * 86_400:
                shutil.rmtree(earlier, ignore_errors=True)

    def get_source_stamp(self) -> str:
        return ""

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _Locator:
        return cls(py_func)


class _Impl(CompileResultCacheImpl):
    _locator_classes: list[type[object]] = [_Locator]  # noqa: RUF012  # Numba declares it so

    def rebuild(self, target_context: Any, payload: tuple[Any, ...]) -> Any:
        """What was compiled, from what was kept of it."""
        if is_inner(payload):
            return read_inner(target_context, payload)
        return super().rebuild(target_context, payload)  # type: ignore[no-untyped-call]


class _Files(IndexDataCacheFile):
    """The files of one kernel; what is compiled is named by its key.

    Numba counts names, so that of two processes that compile at the same time one could put its code under the name
    that the other's index gives to something else.
    """

    def save(self, key: Any, data: Any) -> None:
        """Keep what was compiled, then enter it into the index; if another process enters something, one is lost."""
        name = f"{self._stem}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc"
        files: Any = super()  # which has no types
        files._save_data(name, data)
        files._save_index({**files._load_index(), key: name})

    @property
    def _stem(self) -> str:
        return str(self._index_name).removesuffix(".nbi")


class KernelCache(FunctionCache):
    """Numba's cache of one kernel, in the folder of its module."""

    _impl_class = _Impl
    inner = False  # another kernel calls it, so that an entry for Python is not needed

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._base: Any = super()  # which has no types
        self._cache_file = _Files(self._cache_path, self._impl.filename_base, "")  # type: ignore[no-untyped-call]

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """A file that is damaged, or cannot be read, counts as none: the kernel is compiled again."""
        found = None
        try:
            found = self._base.load_overload(sig, target_context)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError, AttributeError, ImportError, IndexError):
            with contextlib.suppress(OSError):
                self._base.flush()
        if found is None:
            PROGRESS.begin()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """A folder that is full or read-only keeps nothing; what was compiled works all the same."""
        PROGRESS.advance()
        with contextlib.suppress(OSError):
            self._base.save_overload(sig, data)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        """A layout's class may live in a module that the kernel's does not import: its fields are part of the key."""
        fields = tuple(names for kind in sig for names in _field_names(kind))
        return (*self._base._index_key(sig, codegen), fields, self.inner)


def _field_names(kind: Any) -> list[tuple[str, ...]]:
    """The names of the fields of a named tuple's type, and of those inside it."""
    named = [tuple(kind.fields)] if hasattr(kind, "instance_class") else []
    return named + [fields for inner in getattr(kind, "types", ()) for fields in _field_names(inner)]
