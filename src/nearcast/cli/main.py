"""`nearcast COMMAND ...`: finds the command's module, runs it, and turns errors into one line and an exit code."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from nearcast import __version__
from nearcast.cli.parser import Parser
from nearcast.errors import NearcastError

# Name -> one line of help. The module of the same name in this package is imported only when it is called.
COMMANDS = {
    "run": "answer subscriptions over files or watched folders of messages, on Spark",
    "plan": "tell how evenly subscriptions spread over shards, and how many shards to take",
    "serve": "take messages and subscriptions over HTTP and WebSocket, and tell what changes at once",
    "demo": "run the pipeline on a made-up city and write a report with a map",
    "warm": "compile kernels ahead, so that nobody waits later",
    "cache": "tell where compiled kernels are kept, and remove them",
    "bench": "measure the benchmarks of a checkout, and show what was recorded",
}

_EPILOG = "nearcast COMMAND --help tells more about a command."


def build_parser() -> argparse.ArgumentParser:
    """The parser of the words before a command's own options."""
    listed = "\n".join(f"  {name:<8}{about}" for name, about in COMMANDS.items())
    parser = Parser(
        prog="nearcast",
        description=f"Standing questions over a stream of geo-tagged text.\n\ncommands:\n{listed}",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"nearcast {__version__}")
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="one of the above")
    return parser


def command_parser(command: str) -> argparse.ArgumentParser:
    """The parser of one command's options."""
    parser: argparse.ArgumentParser = importlib.import_module(f"nearcast.cli.{command}").build_parser()
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code: 0 done, 1 failed on the way, 2 asked for what cannot be, 130 interrupted."""
    words = list(sys.argv[1:] if argv is None else argv)
    command = build_parser().parse_args(words[:1]).command
    module = importlib.import_module(f"nearcast.cli.{command}")
    try:
        code: int = module.main(words[1:])
        return code
    except (NearcastError, OSError) as error:  # a path that cannot be read or written, a full disk
        print(f"nearcast {command}: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"nearcast {command}: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
