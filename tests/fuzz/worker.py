"""Runs rounds that it is told on its input, one `name-seed` in a line, and says of each how it went.

The answer is a line of JSON: the time it took, and the failure if there was one. A round that crashes or hangs takes
this process along; whoever started it knows which one that was.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from typing import Any

from fuzz.rounds import ROUNDS


def run(name: str, seed: int) -> str | None:
    """One round: what failed, or None."""
    try:
        ROUNDS[name](seed)
    except Exception as error:
        frames = "".join(traceback.format_tb((error.__cause__ or error).__traceback__)[-3:])
        return f"{type(error).__name__}: {error}\n{frames}"
    return None


def main() -> None:
    os.fsync = lambda file: None  # type: ignore[assignment]  # snapshots need not outlive the machine
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        name, _, seed = line.strip().rpartition("-")
        start = time.monotonic()
        answer: dict[str, Any] = {"failure": run(name, int(seed))}
        answers.write(json.dumps({**answer, "seconds": time.monotonic() - start}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
