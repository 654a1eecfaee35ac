"""Compiles what a run on this machine needs while Spark starts, so that workers find it compiled.

Kernels are compiled once per machine and version, which takes some minutes of one core. They are spent by two processes
instead of every worker.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import pyarrow as pa

from nearcast.kernel_cache import kernel_folder, module_digest

_DONE = kernel_folder() / f"all-{module_digest('nearcast.spark.session.warm')}"  # is there when everything was compiled
_HALVES = (("within",), ("similar", "topk", "nearest"))  # kinds whose kernels take about as long to compile


def is_compiled() -> bool:
    """Was everything compiled before?"""
    return _DONE.exists()


def compile_aside() -> None:
    """Have everything compiled by other processes, unless it was before."""
    if not is_compiled():
        subprocess.run([sys.executable, "-m", "nearcast.spark.session.warm"], check=False, capture_output=True)


def _compile_reading() -> None:
    """Compile what tasks that read need, and no broker does."""
    from nearcast.columns.tokens import spell
    from nearcast.model.analyzer import PLAIN_RULE
    from nearcast.spark.shards.places import shards_of
    from nearcast.text.analysis import Analysis

    words = pa.array(["a b a"])
    spell(words, pa.nulls(1, pa.list_(pa.string())), Analysis(PLAIN_RULE))
    shards_of(words, 2)


if __name__ == "__main__":
    # Imports every engine, which a driver does not need.
    from nearcast.broker.warm import are_compiled, compile_kernels, note_compiled

    _compile_reading()
    if not are_compiled():
        with ProcessPoolExecutor(len(_HALVES)) as halves:
            list(halves.map(compile_kernels, _HALVES))
        note_compiled()
    if _DONE.parent.exists():  # not where compiling is switched off
        _DONE.touch()
