"""How code reads: functions that fit on a page, modules that hold one idea, plain words. There are no exceptions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted(path for top in ("src", "tests", "bench", "examples") for path in (ROOT / top).rglob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MOST_ARGUMENTS = 8  # that are given by position; what is named at every call explains itself
MOST_LINES = 80  # of a function
MOST_MODULE_LINES = 600
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


@pytest.mark.parametrize("path", [*(path for path in MODULES if "tests" not in path.parts), *PAGES], ids=name_of)
def test_english_is_plain(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for word, instead in DIALECT.items():
        found = re.search(rf"\b{word}\b", text, re.IGNORECASE)
        assert found is None, f"{word!r} at character {found.start()}: say {instead}"
