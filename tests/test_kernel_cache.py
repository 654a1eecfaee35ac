"""An edit compiles again what it can reach, and nothing else."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from nearcast.compile_progress import TEXT
from nearcast.kernel_cache import module_digest

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


def run(folder: Path) -> list[int]:
    environment = {**os.environ, "NEARCAST_CACHE": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", RUN], cwd=folder, env=environment, capture_output=True, text=True)
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


def test_engines_do_not_depend_on_doors_to_the_outside() -> None:
    """So that an edit there compiles nothing."""
    from nearcast.kernel_cache import _reached

    reached = _reached("nearcast.engines.within.engine")
    assert "nearcast.space.distance" in reached
    assert not [name for name in reached if name.startswith(("nearcast.cli", "nearcast.cluster", "nearcast.broker"))]
    assert module_digest("nearcast.engines.within.engine") != module_digest("nearcast.engines.topk.engine")
