"""`nearcast cache`: tells where compiled kernels are kept, and removes them."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence

from nearcast.cli.parser import Parser
from nearcast.kernel_cache import kernel_folder

_DESCRIPTION = """\
Compiled kernels are kept in a folder outside the installation, which pip does not know of. Before you uninstall
Nearcast, remove it with --clear; whatever runs later compiles again.
"""


def build_parser() -> argparse.ArgumentParser:
    """The options of `nearcast cache`."""
    shape = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="nearcast cache", description=_DESCRIPTION, formatter_class=shape)
    parser.add_argument("--clear", action="store_true", help="remove all compiled kernels")
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    clear = build_parser().parse_args(argv).clear
    folder = kernel_folder()
    files = [path for path in folder.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    if clear and folder.exists():
        shutil.rmtree(folder)
    print(f"{folder}: {len(files)} files, {size / 1e6:.1f} MB{', removed' if clear else ''}")
    return 0
