"""Every command's --help becomes the page docs/cli.md: `python -m nearcast.cli.reference > docs/cli.md`."""

from __future__ import annotations

import argparse
import os
import sys

from nearcast.cli.main import COMMANDS, build_parser, command_parser

COLUMNS = 100  # argparse breaks lines at the width of the terminal; the page has a width of its own

_OPENING = """\
# The command line

This page is what `nearcast --help` and `nearcast COMMAND --help` print. It is generated; to make it again:

    .venv/bin/python -m nearcast.cli.reference > docs/cli.md

Exit codes are the same for every command: 0 done, 1 failed on the way, 2 asked for what cannot be, 130 interrupted.
"""
_CLOSING = """\
## Environment

| variable | meaning |
| --- | --- |
| `NEARCAST_CACHE` | folder for compiled kernels and what else can be made again; else `~/.cache/nearcast` |
| `NEARCAST_DATA` | folder of the stored datasets that `nearcast bench` reads |
| `NUMBA_NUM_THREADS` | 1: no second process helps to compile on first use; else there is one on two cores or more |
| `JAVA_HOME` | the Java to start Spark with, if it is 17 or newer; else that on `PATH`, else the packaged one |

The first run after an installation compiles kernels, which takes up to a minute; they are kept in the cache.
"""


def reference() -> str:
    """The page as Markdown."""
    parts = [_OPENING, _section("nearcast", build_parser())]
    parts += [_section(f"nearcast {command}", command_parser(command)) for command in COMMANDS]
    parts.append(_CLOSING)
    return "\n".join(parts)


def _section(title: str, parser: argparse.ArgumentParser) -> str:
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(COLUMNS)
    try:
        text = parser.format_help()
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    lines = "\n".join(line.rstrip() for line in text.strip().splitlines())
    return f"## {title}\n\n```text\n{lines}\n```\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
