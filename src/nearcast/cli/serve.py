"""`nearcast serve`: options and a file become a server; `--demo` plays the invented city into it."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
import webbrowser
from collections.abc import Sequence
from typing import Any

from nearcast.cli.options import add_analyzer, bounds_of, joined, parser_of
from nearcast.errors import InvalidInput, SetupError

_DEMO_DATA = "out/serve-demo"
_DESCRIPTION = """\
One process that people publish to and subscribe from, over HTTP, WebSocket, SSE and webhooks.

What is acknowledged is on disk: it may be killed at any moment, and goes on from there when it is started again; a
client that resumes by its cursor has every update exactly once. Without any key it listens on the loopback alone.
"""
_EPILOG = """\
examples
  nearcast serve --demo --open
  nearcast serve --data city --space=-74.3,40.5,-73.7,41.0 --window-age 3600
  nearcast serve --data city --new-key admin
  nearcast serve --data city --host 0.0.0.0 --config serve.toml
  nearcast serve --data front1 --pipeline city --window-age 3600
"""


def build_parser() -> argparse.ArgumentParser:
    """The options of `nearcast serve`."""
    parser = parser_of("nearcast serve", _DESCRIPTION, _EPILOG)
    add = parser.add_argument
    add("--data", metavar="DIR", help=f"folder for all that must last (required; with --demo: {_DEMO_DATA})")
    add("--host", metavar="HOST", help="address to listen on (default: 127.0.0.1; others need a key)")
    add("--port", type=int, metavar="PORT", help="port to listen on; 0 takes a free one (default: 8787)")
    add("--space", metavar="W,S,E,N", help="bounds where most places lie (default: the world, -180,-90,180,90)")
    add(
        "--metric",
        choices=("haversine", "euclidean"),
        help="degrees and metres, or plain coordinates (default: haversine)",
    )
    add("--window-count", type=int, metavar="N", help="only the newest N messages are live")
    add(
        "--window-age", type=float, metavar="S", help="messages are live for S seconds (default without a count: a day)"
    )
    add(
        "--clock",
        choices=("event", "wall"),
        help="what moves the clock: messages alone, or time (default: wall; with --demo: event)",
    )
    add("--threads", type=int, metavar="N", help="cores that a large batch may be matched with (default: 1)")
    add_analyzer(add)
    add("--config", metavar="FILE", help="a file in TOML with these settings and more; options win")
    add(
        "--pipeline",
        metavar="DIR",
        help="stand in front of `nearcast run --events DIR/inbox --follow --out DIR/out`: publish into its input, "
        "and tell what it tells; several servers may",
    )
    add("--basemap", metavar="FILE", help="a file of PMTiles for the map of the page")
    add("--demo", action="store_true", help="play a day in an invented city, again and again")
    add("--open", action="store_true", help="open the page in a browser, where there is a screen")
    add(
        "--allow-private-webhooks",
        action="store_true",
        default=None,
        help="let webhooks reach addresses that are not public",
    )
    add("--new-key", metavar="SCOPES", help="make a key with these scopes (with commas between), print it, and end")
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    args = build_parser().parse_args(joined(argv))
    for name in ("uvicorn", "starlette", "msgspec"):
        if importlib.util.find_spec(name) is None:
            raise SetupError(f"nearcast serve needs {name}; install it with pip install 'nearcast[serve]'")
    config = _config(args)
    server: Any = importlib.import_module("nearcast.server.run")
    if args.new_key is not None:
        print(server.new_key(config, args.new_key.split(",")))
        return 0
    beside = [importlib.import_module("nearcast.cli.serve_demo").play] if args.demo else []
    service = server.Service(config)

    def tell(address: str) -> None:
        print(f"nearcast serve: {address}", flush=True)
        if args.open and _has_screen():
            webbrowser.open(address)

    server.serve(service, tell, *beside)
    return 0


def _has_screen() -> bool:
    """Whether a browser would have a window; without one a browser of texts would take the terminal."""
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _config(args: argparse.Namespace) -> Any:
    names = ("data", "host", "port", "metric", "window_count", "window_age", "clock", "threads")
    more = ("allow_private_webhooks", "pipeline", "basemap", "stop_words", "stemmer", "accents", "cjk")
    given: dict[str, Any] = {name: getattr(args, name) for name in (*names, *more)}
    given["space"] = None if args.space is None else bounds_of(args.space)
    if args.demo:
        given = importlib.import_module("nearcast.cli.serve_demo").settings(_DEMO_DATA, given)
    elif args.data is None and args.config is None:
        raise InvalidInput("--data", None, "must name a folder")
    return importlib.import_module("nearcast.server.config").load(args.config, given)
