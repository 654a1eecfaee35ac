"""Code of kernels that only other kernels call: kept as the compiler's bitcode, and made native inside each caller.

Numba optimises every kernel together with all that it calls, makes native code of that, and does so again for each
caller, up to the kernel that Python calls. Only the last is ever run. With the others kept as bitcode the README's
dozen lines spend 23 s of one core in compiling instead of 36 (2026-11-19).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm  # type: ignore[import-untyped]
from numba.core import compiler
from numba.core.codegen import JITCodeLibrary

_KIND = "inner"  # beside Numba's own "object" and "bitcode", both of which become native code when they are read


class InnerLibrary(JITCodeLibrary):
    """Bitcode that is linked into callers and optimised there; it cannot be run."""

    @classmethod
    def read(cls, codegen: Any, data: tuple[str, str, bytes]) -> InnerLibrary:
        """The library that was kept as `data`."""
        name, _, bitcode = data
        made: Any = cls(codegen, name)
        made._final_module = made._shared_module = llvm.parse_bitcode(bitcode)
        made._finalize_final_module()
        return made  # type: ignore[no-any-return]

    def serialize_using_object_code(self) -> tuple[str, str, bytes]:
        """What the cache keeps."""
        return str(self.name), _KIND, self._bitcode()

    def _bitcode(self) -> bytes:
        own: Any = self  # Numba has no types
        return bytes(own._get_module_for_linking().as_bitcode())

    def _optimize_final_module(self) -> None:
        """Callers optimise."""

    def _finalize_final_module(self) -> None:
        own: Any = super()
        own._finalize_dynamic_globals()
        self._finalized = True


class KernelPipeline(compiler.Compiler):
    """Numba's compiler, which is told by `no_compile` that Python will not call the function."""

    def compile_extra(self, function: Callable[..., Any]) -> Any:
        """What the function becomes."""
        state: Any = self.state
        if state.flags.no_compile:
            state.library = InnerLibrary(state.targetctx.codegen(), function.__qualname__)  # type: ignore[no-untyped-call]
        own: Any = super()
        return own.compile_extra(function)


def is_inner(payload: tuple[Any, ...]) -> bool:
    """Is this, from the cache, a kernel without native code?"""
    return bool(payload[0][1] == _KIND)


def read_inner(target: Any, payload: tuple[Any, ...]) -> Any:
    """What the compiler once made of such a kernel, from what the cache kept of it."""
    data, described, environment, signature, object_mode, lifted, annotation, reload_init, environments = payload
    return compiler.compile_result(
        target_context=target,
        typing_context=target.typing_context,
        library=InnerLibrary.read(target.codegen(), data),
        environment=environment,
        fndesc=described,
        type_annotation=annotation,
        signature=signature,
        objectmode=object_mode,
        lifted=lifted,
        reload_init=reload_init,
        referenced_envs=environments,
    )
