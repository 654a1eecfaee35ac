"""The parser of every command line: a mistake gets two lines, what is wrong and what to write instead."""

from __future__ import annotations

import argparse
import re
import sys
from difflib import get_close_matches
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """`argparse` without the usage on every mistake."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and what was most likely meant, and exit with 2."""
        message = message.replace("argument COMMAND: ", "")
        print(f"{self.prog}: error: {message.split(' (choose from')[0]}", file=sys.stderr)
        print(self._suggestion(message), file=sys.stderr)
        sys.exit(2)

    def _suggestion(self, message: str) -> str:
        given = re.search(r"(?:unrecognized arguments: |invalid choice: )'?([^\s'=]+)", message)
        options = [name for action in self._actions for name in action.option_strings]
        choices = [str(name) for action in self._actions for name in action.choices or ()]
        near = get_close_matches(given.group(1), options + choices, 1) if given else []
        more = f"{self.prog} --help tells what can be given"
        return f"did you mean {near[0]}? {more}" if near else more
