"""The documentation tells the truth: what it shows runs, what it lists is complete, what it links to is there."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import io
import json
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import nearcast
import nearcast.client
import nearcast.spark
from nearcast import errors
from nearcast.cli.main import command_parser
from nearcast.cli.reference import reference
from nearcast.model.codec import event_from_json
from nearcast.model.query import QUERIES
from nearcast.server import schema

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
ON_ONE_SPARK = {"spark_job"}  # a script that tests/spark/test_examples.py runs, in a Spark that is there
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.py")) if path.stem not in ON_ONE_SPARK]
SOURCES = sorted((ROOT / "src" / "nearcast").rglob("*.py"))
ON_SPARK = {"nearcast.spark.session.daemon"}  # importing it starts Spark
SCHEMAS = {"ANSWERS", "MESSAGES", "SUBSCRIPTIONS"}  # of Spark: docs/json.md tells of their columns
USES_SPARK = {"files_to_pipeline"}
SHOWN_CALL = re.compile(
    r"\s*(?:\.venv/bin/)?nearcast ((?:run|demo|bench|plan|serve)\b(?!.*COMMAND).*?)(?:  +[a-z].*)?$"
)
REGENERATE = ".venv/bin/python -m nearcast.cli.reference > docs/cli.md"


def modules() -> list[str]:
    found = pkgutil.walk_packages(nearcast.__path__, "nearcast.", onerror=lambda name: None)
    return ["nearcast", *sorted(module.name for module in found if module.name not in ON_SPARK)]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def headings(page: Path) -> list[str]:
    outside = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^#+ (.+?)\s*$", outside, re.MULTILINE)


def anchor(heading: str) -> str:
    """The name by which a heading is linked to."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_the_readme_runs_and_prints_what_it_says() -> None:
    page = ROOT / "README.md"
    code, printed = blocks(page, "python")[0], blocks(page, "text")[0]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    assert out.getvalue() == printed


def test_the_queries_that_the_readme_lists_can_be_made() -> None:
    shown = re.findall(r"`nc\.(\w+)(\(.*\))` \|$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {name for name, _ in shown} == {query.__name__ for query in QUERIES.values()}
    for name, arguments in shown:
        eval(f"nc.{name}{arguments}", {"nc": nearcast})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_of_pages_run(page: Path) -> None:
    text = re.sub(r"^```.*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)  # a fence is no output
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    report = io.StringIO()
    failed = doctest.DocTestRunner().run(test, out=report.write).failed
    assert not failed, report.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_that_pages_show_without_running_it_is_real(page: Path) -> None:
    """Blocks that need Spark or a server: they parse, and what they import is there."""
    for block in blocks(page, "python"):
        if ">>>" in block:
            continue
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom):
                module = importlib.import_module(node.module or "")
                assert all(hasattr(module, each.name) for each in node.names), f"{page.name}: {ast.unparse(node)}"
            elif isinstance(node, ast.Import):
                for each in node.names:
                    importlib.import_module(each.name)


@pytest.mark.parametrize("name", modules())
def test_examples_of_modules_run(name: str) -> None:
    report = io.StringIO()
    with contextlib.redirect_stdout(report):
        failed = doctest.testmod(importlib.import_module(name)).failed
    assert not failed, report.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_scripts_print_what_they_say(path: Path) -> None:
    if path.stem in USES_SPARK and os.environ.get("NUMBA_DISABLE_JIT") == "1":
        pytest.skip("Spark is tried with compiled kernels only")
    said = path.read_text(encoding="utf-8").partition("\n# Prints:\n")[2]
    assert said, f"{path.name} must end in a comment that says what it prints"
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "".join(f"# {line}".rstrip() + "\n" for line in done.stdout.splitlines()) == said


def test_json_on_the_page_is_read() -> None:
    lines = [line for block in blocks(ROOT / "docs" / "json.md", "jsonl") for line in block.splitlines()]
    assert len(lines) > 10
    for line in lines:
        event_from_json(json.loads(line))
    for block in blocks(ROOT / "docs" / "json.md", "json"):
        json.loads(block)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+://", target):
            continue
        path, _, place = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{page.name} links to {target}"
        if place:
            assert place in [anchor(heading) for heading in headings(found)], f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_modules_that_pages_name_are_there(page: Path) -> None:
    if page.stem == "CHANGELOG":  # which tells of the past
        return
    text = page.read_text(encoding="utf-8")
    tops = (ROOT, ROOT / "src" / "nearcast")
    for name in re.findall(r"`((?:[\w]+/)+[\w]*\.py)`", text):
        assert any((top / name).exists() for top in tops), f"{page.name} names {name}"
    for within, name in re.findall(r"`(\w+)`\s+of\s+`((?:\w+/)+\w+\.py)`", text):
        source = next((top / name).read_text("utf-8") for top in tops if (top / name).exists())
        assert re.search(rf"\b{within}\b", source), f"{page.name} looks for {within} in {name}"


def test_every_error_code_has_a_heading() -> None:
    raised = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    page = ROOT / "docs" / "errors.md"
    for error in raised:
        assert error.code in headings(page), f"docs/errors.md has no heading for the code {error.code}"
        assert f"`{error.__name__}`" in page.read_text(encoding="utf-8")
        assert error.__name__ in nearcast.__all__


def test_every_query_kind_has_a_heading() -> None:
    for query in QUERIES.values():
        assert query.__name__ in headings(ROOT / "docs" / "concepts.md")


def test_every_public_name_is_told_of() -> None:
    told = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for name in nearcast.__all__:
        assert re.search(rf"\b{name}\b", told), f"no page mentions {name}"


def test_every_variable_is_listed() -> None:
    read = {name for path in SOURCES for name in re.findall(r'"(NEARCAST_\w+)"', path.read_text(encoding="utf-8"))}
    for name in read:
        assert f"| `{name}` |" in reference(), f"docs/cli.md does not tell of {name}"


def test_commands_on_pages_can_be_given() -> None:
    """Every `nearcast ...` in a block of shell lines, and in the epilogs of the help, is understood."""
    shown = [
        line for page in PAGES for block in [*blocks(page, "sh"), *blocks(page, "text")] for line in block.splitlines()
    ]
    calls = [shlex.split(found.group(1), comments=True) for line in shown if (found := SHOWN_CALL.match(line))]
    assert len(calls) > 5
    for words in calls:
        command_parser(words[0]).parse_args(words[1:])


def test_paper_keys_in_docstrings_and_on_the_page_agree() -> None:
    """A key is listed when it is used, with the modules that use it."""
    used: dict[str, set[str]] = {}
    for path in SOURCES:
        for cited in re.findall(r"Paper:\s*((?:\[[^\]]+\][ ,]*(?:and )?)+)", path.read_text(encoding="utf-8")):
            for key in re.findall(r"\[([^\]]+)\]", cited):
                used.setdefault(key, set()).add(path.relative_to(ROOT / "src" / "nearcast").as_posix())
    page = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    listed = {section[1 : section.index("]")]: section for section in sections if section.startswith("[")}
    assert used.keys() == listed.keys(), (
        "keys after `Paper:` in src and the headings of docs/papers.md must be the same"
    )
    for key, places in used.items():
        told = set(re.findall(r"`([\w/]+\.py)`", listed[key]))
        assert told == places, f"docs/papers.md must list the modules that cite [{key}]"


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="argparse words its help differently in other versions")
def test_the_page_of_the_command_line_is_fresh() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert page == reference(), f"docs/cli.md is stale; run: {REGENERATE}"


def test_the_site_is_whole(tmp_path: Path) -> None:
    """Built strictly: links and anchors lead somewhere, and every public name is in the reference."""
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    told = (tmp_path / "http.html").read_text(encoding="utf-8")
    for path, operations in schema.openapi()["paths"].items():
        for verb in operations:
            assert f"{verb.upper()} {path}" in told, f"the page of the HTTP interface lacks {verb} {path}"
    said = (tmp_path / "websocket.html").read_text(encoding="utf-8")
    for channel in schema.asyncapi()["channels"].values():
        for name in channel["messages"]:
            assert f'id="{name}"' in said, f"the page of WebSocket messages lacks {name}"
    page = (tmp_path / "reference.html").read_text(encoding="utf-8")
    for name in nearcast.__all__:
        assert f'id="nearcast.{name}"' in page or issubclass(getattr(nearcast, name), Exception), f"{name} is missing"
    for package in (nearcast.spark, nearcast.client):
        for name in set(package.__all__) - SCHEMAS:
            assert f'id="{package.__name__}.{name}"' in page, f"{package.__name__}.{name} is missing"
