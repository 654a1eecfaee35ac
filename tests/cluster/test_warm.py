"""After the warm-up no kernel is left to compile."""

from __future__ import annotations

from typing import Any

from cluster.scenes import answer, events
from nearcast.cluster.warm import compile_kernels
from nearcast.jit import KERNELS


def compiled() -> dict[Any, int]:
    return {kernel: getattr(kernel, "n_compiled", 0) for kernel in KERNELS}


def test_a_stream_needs_nothing_that_the_warm_up_has_not_compiled() -> None:
    compile_kernels()
    before = compiled()
    answer(events(3, 300))
    assert compiled() == before
