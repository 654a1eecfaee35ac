"""How code reads: functions that fit on a page, modules that hold one idea, plain words. There are no exceptions."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted(path for top in ("src", "tests", "bench", "examples") for path in (ROOT / top).rglob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MOST_ARGUMENTS = 8  # that are given by position; what is named at every call explains itself
MOST_LINES = 80  # of a function
MOST_MODULE_LINES = 600
MOST_MODULES = 20  # of a folder: what changes together
GIVEN = (
    "_asdict",
    "_fields",
    "_make",
    "_replace",
    "_gateway",
    "_jsc",
    "_jvm",
)  # by named tuples, and by Spark for its JVM
PRIVATE_PATH = re.compile(r"[a-z_]+(\.\w+)*\._[A-Za-z]\w*")  # as strings name what is to be set
DIALECT = {"anew": "again", "so many": "the number itself"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_functions_and_modules_are_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_MODULE_LINES
    for function in functions(path):
        given = [a.arg for a in (*function.args.posonlyargs, *function.args.args) if a.arg not in ("self", "cls")]
        assert len(given) <= MOST_ARGUMENTS, f"{function.name} has {len(given)} arguments"
        n_lines = (function.end_lineno or function.lineno) - function.lineno + 1
        assert n_lines <= MOST_LINES, f"{function.name} has {n_lines} lines"


def test_folders_are_small() -> None:
    held = Counter(path.parent for path in MODULES if "src" in path.parts and path.name != "__init__.py")
    assert {name_of(folder): n for folder, n in held.items() if n > MOST_MODULES} == {}


@pytest.mark.parametrize("path", [*(path for path in MODULES if "tests" not in path.parts), *PAGES], ids=name_of)
def test_english_is_plain(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for word, instead in DIALECT.items():
        found = re.search(rf"\b{word}\b", text, re.IGNORECASE)
        assert found is None, f"{word!r} at character {found.start()}: say {instead}"


@pytest.mark.parametrize("path", [path for path in MODULES if "src" not in path.parts], ids=name_of)
def test_what_is_outside_uses_public_names(path: Path) -> None:
    """Tests, benchmarks and examples reach for no private attribute of another object, and import no private name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("nearcast"):
            private = [alias.name for alias in node.names if alias.name.startswith("_")]
            assert not private, f"line {node.lineno} imports {private[0]}"
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert not PRIVATE_PATH.fullmatch(node.value), f"line {node.lineno} names {node.value}"
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "setattr":
            name = getattr(node.args[1], "value", "")
            assert re.match("_[^_]", str(name)) is None, f"line {node.lineno} sets {name}"
        if isinstance(node, ast.Attribute) and re.fullmatch(r"_[a-zA-Z]\w*(?<!_)", node.attr):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            inherited = isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super"
            given = node.attr in GIVEN or getattr(node.value, "id", "") == "os"
            assert own or inherited or given, f"line {node.lineno} reaches for {node.attr}"
