"""Which names and pages may call: no page elsewhere reaches a server on the loopback through somebody's browser."""

from __future__ import annotations

from urllib.parse import urlsplit

from nearcast.server.config import LOOPBACK, Config
from nearcast.server.problems import Problem


class Door:
    """Checks `Host` and `Origin` of every request."""

    def __init__(self, config: Config) -> None:
        self._any_host = not config.is_loopback and not config.hosts
        self._hosts = {*LOOPBACK, config.host, *config.hosts}
        self._origins = set(config.origins)

    def check(self, host: str | None, origin: str | None) -> None:
        """Refuse a name that is not ours, and a page that is not ours.

        Raises
        ------
        Problem
            421 for the name, 403 for the page.
        """
        name = urlsplit(f"//{host or ''}").hostname
        if not self._any_host and name not in self._hosts:
            raise Problem(421, "host", "the server is not called so", field="Host", value=host)
        if origin is None or origin in self._origins:
            return
        if urlsplit(origin).netloc != host:
            raise Problem(403, "origin", "pages of this origin may not call", field="Origin", value=origin)
