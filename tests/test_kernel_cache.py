"""An edit compiles again what it can reach, and nothing else."""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nearcast
from nearcast.compile_progress import TEXT

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"

SOURCES = {
    "__init__.py": "",
    "scale.py": "FACTOR = 2\n",
    "middle.py": "from rig.scale import (\n    FACTOR,\n)\n",
    "twice.py": (
        "from nearcast.jit import kernel\nfrom rig import middle\nfrom rig.middle import FACTOR\n"
        "@kernel\ndef twice(x):\n    return x * FACTOR\n"
    ),
    "other.py": "from nearcast.jit import kernel\n@kernel\ndef other(x):\n    return x + 1\n",
}
RUN = (
    "from rig.twice import twice; from rig.other import other;"
    "print(twice(5), other(5), *(sum(k.stats.cache_misses.values()) for k in (twice, other)))"
)


def run(folder: Path, code: str = RUN) -> list[int]:
    environment = {
        **os.environ,
        "NUMBA_BOUNDSCHECK": "1",
        "NEARCAST_CACHE": str(folder / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


@pytest.mark.skipif(not COMPILED, reason="kernels are not compiled")
def test_an_edit_compiles_only_what_it_reaches(tmp_path: Path) -> None:
    package = tmp_path / "rig"
    package.mkdir()
    for name, source in SOURCES.items():
        (package / name).write_text(source)
    assert run(tmp_path) == [10, 6, 1, 1]
    assert run(tmp_path) == [10, 6, 0, 0]
    (package / "scale.py").write_text("FACTOR = 3\n")  # a constant two imports away
    assert run(tmp_path) == [15, 6, 1, 0]
    (package / "unrelated.py").write_text("FACTOR = 4\n")
    assert run(tmp_path) == [15, 6, 0, 0]
    (package / "scale.py").write_text("FACTOR = 2\n")  # back again: what was compiled then is still there
    assert run(tmp_path) == [10, 6, 0, 0]


@pytest.mark.skipif(not COMPILED, reason="kernels are not compiled")
def test_a_terminal_is_told_that_kernels_are_compiled(tmp_path: Path) -> None:
    code = (
        "import nearcast as nc\n"
        "broker = nc.Broker(nc.Space((0, 0, 1, 1)), nc.Window(count=1))\n"
        "broker.subscribe_many([])\n"
        "broker.advance(1)\n"
        "print('done')\n"
    )
    environment = {**os.environ, "NEARCAST_CACHE": str(tmp_path / "cache"), "TERM": "xterm", "COLUMNS": "200"}
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    told = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while part := os.read(ours, 65536):
            told += part
    out, _ = process.communicate()
    os.close(ours)
    assert process.returncode == 0
    assert TEXT.encode() in told
    assert out.strip() == b"done"


CALLS = (
    "from rig.both import inner, outer;"
    "print(outer(5), *({}), len(inner.overloads), len(inner.entries), sum(inner.stats.cache_misses.values()))"
)
BOTH = (
    "from nearcast.jit import kernel\n"
    "@kernel\ndef inner(x, n):\n    return x + n\n"
    "@kernel\ndef outer(x):\n    n = 0\n    for i in range(3):\n        n = inner(x, n)\n    return inner(n, 1)\n"
)


@pytest.mark.skipif(not COMPILED, reason="kernels are not compiled")
def test_a_kernel_gets_an_entry_when_python_calls_it(tmp_path: Path) -> None:
    """One signature for all integers of a kernel that calls; Python's call compiles it again, and both are kept."""
    package = tmp_path / "rig"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "both.py").write_text(BOTH)
    assert run(tmp_path, CALLS.format("()")) == [16, 1, 0, 1]
    assert run(tmp_path, CALLS.format("[inner(5, 1), inner(6, 2)]")) == [16, 6, 8, 1, 1, 1]
    assert run(tmp_path, CALLS.format("[inner(5, 1), inner(6, 2)]")) == [16, 6, 8, 1, 1, 0]
    assert run(tmp_path, CALLS.format("()")) == [16, 0, 0, 0]


@pytest.mark.skipif(not COMPILED, reason="kernels are not compiled")
def test_code_of_a_kernel_that_only_kernels_call_is_linked_again_into_a_new_caller(tmp_path: Path) -> None:
    """It is kept without native code; an index that is out of bounds is reported from within it, with its values."""
    package = tmp_path / "rig"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "entry.py").write_text(
        "from nearcast.jit import kernel\n@kernel\ndef entry(array, i):\n    return array[i]\n"
    )
    caller = (
        "from nearcast.jit import kernel\nfrom rig.entry import entry\n@kernel\ndef {0}(array, i):\n    return {1}\n"
    )
    code = (
        "import numpy as np; from rig.{0} import {0}; from rig.entry import entry; array = np.arange(5);"
        "print({0}(array, 4), sum(entry.stats.cache_misses.values()))\n"
        "try: {0}(array, 5)\nexcept IndexError: print(1)"
    )
    for name, body, found in (("once", "entry(array, i)", [4, 1, 1]), ("twice", "2 * entry(array, i)", [8, 0, 1])):
        (package / f"{name}.py").write_text(caller.format(name, body))
        assert run(tmp_path, code.format(name)) == found
    files = list((tmp_path / "cache").rglob("entry.*.nbc"))
    assert len(files) == 1
    assert b".text" not in files[0].read_bytes()  # a section of native code


@pytest.mark.skipif(not COMPILED, reason="kernels are not compiled")
def test_two_processes_do_not_take_each_others_code(tmp_path: Path) -> None:
    """Both compile one kernel at the same time, with an entry and without: each finds what its index names."""
    package = tmp_path / "rig"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "both.py").write_text(BOTH)
    assert run(tmp_path, CALLS.format("()")) == [16, 1, 0, 1]
    (tmp_path / "cache").rename(tmp_path / "other")
    assert run(tmp_path, "from rig.both import inner; print(inner(5, 1))") == [6]
    shutil.copytree(  # the other process writes its code last
        tmp_path / "other", tmp_path / "cache", ignore=shutil.ignore_patterns("*.nbi"), dirs_exist_ok=True
    )
    assert run(tmp_path, "from rig.both import inner; print(inner(5, 1), sum(inner.stats.cache_hits.values()))") == [
        6,
        1,
    ]


@pytest.mark.skipif(not COMPILED, reason="kernels are not compiled")
def test_a_folder_that_keeps_nothing_does_no_harm(tmp_path: Path) -> None:
    """Full, read-only, or holding damaged files: kernels are compiled again."""
    package = tmp_path / "rig"
    package.mkdir()
    for name, source in SOURCES.items():
        (package / name).write_text(source)
    (tmp_path / "cache").write_text("not a folder")
    assert run(tmp_path) == [10, 6, 1, 1]
    (tmp_path / "cache").unlink()
    assert run(tmp_path) == [10, 6, 1, 1]
    for path in (tmp_path / "cache").rglob("*.nb?"):
        path.write_bytes(path.read_bytes()[:-20])
    assert run(tmp_path)[:2] == [10, 6]


DIGESTS = """
import pathlib, nearcast.kernel_cache as cache
root = pathlib.Path(cache.__file__).parent
for path in root.rglob("*.py"):
    if "from nearcast.jit import" in path.read_text():
        name = ".".join(("nearcast", *path.relative_to(root).with_suffix("").parts))
        print(name, cache.module_digest(name))
"""


def digests(sources: Path) -> dict[str, str]:
    """The digest of every module that has kernels, of a copy of the sources."""
    environment = {**os.environ, "PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", DIGESTS], env=environment, capture_output=True, text=True, check=True)
    return dict(line.split() for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("edited", "reached"),
    [
        ("cli/main.py", ()),
        ("broker/broker.py", ()),
        ("engines/within/match.py", ("engines.within",)),
        ("engines/topk/match.py", ("engines.topk",)),
        ("engines/nearest/grid/match.py", ("engines.nearest",)),
        ("engines/exact.py", ("engines", "broker", "partition")),
        ("window/index/nodes.py", ("window", "engines", "broker", "partition")),
    ],
)
def test_an_edit_of_the_library_compiles_only_what_it_reaches(
    edited: str, reached: tuple[str, ...], tmp_path: Path
) -> None:
    """Nothing for a command, an engine's own modules for an engine, all engines for what they share."""
    shutil.copytree(Path(nearcast.__file__).parent, tmp_path / "nearcast", ignore=shutil.ignore_patterns("*.pyc"))
    before = digests(tmp_path)
    assert len(before) > 50
    with (tmp_path / "nearcast" / edited).open("a") as file:
        file.write("# a remark\n")
    after = digests(tmp_path)
    changed = {name.removeprefix("nearcast.") for name in before if before[name] != after[name]}
    assert before.keys() == after.keys()
    assert bool(changed) == bool(reached)
    assert all(any(f"{name}.".startswith(f"{part}.") for part in reached) for name in changed), changed
