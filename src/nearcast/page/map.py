"""A map as callers get it: notebooks show it, `save` writes it."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path

_HEIGHT = 560  # pixels in a notebook


class Map:
    """A map of messages and subscriptions: one page of HTML that needs no network.

    A notebook shows it when it is the last value of a cell.

    Attributes
    ----------
    title
        What stands at its top.
    html
        The whole page.

    Examples
    --------
    >>> Map("Berlin", "<!doctype html>...")
    <Map 'Berlin': 18 bytes; save(path) writes it as HTML>
    """

    def __init__(self, title: str, html: str) -> None:
        self.title = title
        self.html = html

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file, to be opened in a browser; folders on the way are made. Returns the path."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self.html, encoding="utf-8")
        return target

    def __repr__(self) -> str:
        """What it is, and how to see it."""
        return f"<Map {self.title!r}: {len(self.html.encode()):,} bytes; save(path) writes it as HTML>"

    def _repr_html_(self) -> str:
        """A frame for notebooks, which keeps the page's styles and names apart from theirs."""
        frame = f'width="100%" height="{_HEIGHT}" style="border: 0" title="{escape(self.title)}"'
        return f'<iframe {frame} srcdoc="{escape(self.html)}"></iframe>'
