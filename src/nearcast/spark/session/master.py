"""Is there anybody at the address of a Spark master? Asked before Spark is, which tries for minutes and says little."""

from __future__ import annotations

import re
import socket
import threading
import time

from nearcast.errors import SetupError

PATIENCE_S = 15.0

_SERVED = re.compile(r"(?:spark|sc|k8s)://(?:https?://)?(?P<places>[^/;]+)")
_PLACE = re.compile(r"\[?(?P<host>[^\]\s]+?)\]?(?::(?P<port>\d+))?")
_PORTS = {"spark": 7077, "sc": 15002, "k8s": 443}


def check_master(master: str, patience_s: float = PATIENCE_S) -> None:
    """Raise `SetupError` unless one of the addresses in a master's URL answers in time.

    Masters without an address (``local[2]``, ``yarn``) are passed over, and so are URLs that only Spark can judge.
    """
    places = _places(master)
    if not places:
        return
    deadline = time.monotonic() + patience_s
    reasons: dict[tuple[str, int], str] = {}
    answered = threading.Event()

    def ask(place: tuple[str, int]) -> None:
        try:
            socket.create_connection(place, timeout=patience_s).close()
            answered.set()
        except (OSError, UnicodeError) as error:
            reasons[place] = getattr(error, "strerror", None) or str(error) or type(error).__name__

    # In threads: a name that no server resolves cannot be given up in any other way.
    asking = [threading.Thread(target=ask, args=(place,), daemon=True) for place in places]
    for thread in asking:
        thread.start()
    while not answered.is_set() and any(thread.is_alive() for thread in asking) and time.monotonic() < deadline:
        answered.wait(0.02)
    if answered.is_set():
        return
    said = [f"{host}:{port}: {reasons.get((host, port), f'no answer in {patience_s:g} s')}" for host, port in places]
    raise SetupError(f"the Spark master {master} cannot be reached ({'; '.join(said)})")


def _places(master: str) -> list[tuple[str, int]]:
    found = _SERVED.match(master)
    if found is None:
        return []
    port = _PORTS[master.partition("://")[0]]
    matches = [_PLACE.fullmatch(place.strip()) for place in found["places"].split(",")]
    return [(match["host"], int(match["port"] or port)) for match in matches if match is not None]
