"""`Kernel`: a Numba dispatcher that gives a function an entry for Python only when Python calls it.

Most kernels are only ever called by other kernels. Numba nevertheless gives each of them one entry that unpacks
Python's arguments, array by array, and another one for C, which nobody calls. Without them the README's dozen lines
spend 41 s of one core in compiling instead of 56 (2026-11-18).
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

from numba.core import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.sigutils import normalize_signature

from nearcast.inner_code import KernelPipeline
from nearcast.kernel_cache import KernelCache


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Let no garbage be collected: what a compiler makes lives until it is done, and is looked through in vain.

    The README's dozen lines spend 24.4 s in compiling instead of 26.9 (2026-11-18).
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class Kernel(CPUDispatcher):
    """A function, and what it was compiled to for the types of its arguments.

    A signature that other kernels called first is compiled again, with an entry, when Python calls it.
    """

    def __init__(self, py_func: Callable[..., Any], locals: Any = None, targetoptions: Any = None) -> None:
        super().__init__(py_func, locals or {}, targetoptions or {}, pipeline_class=KernelPipeline)
        self._compiler: Any
        self._compiler._customize_flags = self._customize_flags
        self._cache: Any = KernelCache(py_func)
        self._inner = False  # while another kernel asks
        self.entries: set[Any] = set()  # argument types with which Python may call

    @property
    def n_compiled(self) -> int:
        """Signatures, and entries for Python: a test can see whether a call made more of them."""
        return len(self.overloads) + len(self.entries)

    def _customize_flags(self, flags: Any) -> Any:
        flags.no_cpython_wrapper = flags.no_compile = self._inner
        flags.no_cfunc_wrapper = True
        return flags

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Another kernel, which is being compiled, calls this one with arguments of these types.

        A number counts as an integer like all others, or a kernel would be compiled once for the 0 that a count begins
        with, and again for what it becomes.
        """
        self._inner = True
        try:
            return super().get_call_template(
                tuple(map(types.unliteral, args)), {name: types.unliteral(kind) for name, kind in kws.items()}
            )
        finally:
            self._inner = False

    def compile(self, sig: Any) -> Any:
        """The function for a signature: known, from the cache, or compiled now."""
        with global_compiler_lock, _no_collection():
            self._cache.inner = self._inner
            args = tuple(normalize_signature(sig)[0])
            if not self._inner and args not in self.entries:
                self.overloads.pop(args, None)
            return super().compile(sig)

    def add_overload(self, cres: Any) -> None:
        """Note what a signature was compiled to."""
        args = tuple(cres.signature.args)
        if self._inner:
            if cres.entry_point is None:
                cres = self._known_to_callers(cres)
            self.overloads[args] = cres
        else:
            super().add_overload(cres)
            self.entries.add(args)
            for environment in cres._find_referenced_environments():
                cres.codegen.set_env(environment.env_name, environment)

    def _known_to_callers(self, cres: Any) -> Any:
        """Numba finds a function that is called by its entry, and any object will do."""
        cres = cres._replace(entry_point=object())
        target: Any = self.targetctx
        target.insert_user_function(cres.entry_point, cres.fndesc, [cres.library])
        return cres
