"""Every figure in miniature, in this process, with a fixed seed: its counts of work, and those that were accepted.

Counts do not depend on the machine. One that changes is either an improvement, to be accepted with the change that
made it (`nearcast bench --guard --accept`), or a regression.
"""

from __future__ import annotations

import json
from typing import Any

from bench.figure import Counts, Stopwatch, WrongAnswer, load, names
from bench.record import RESULTS

ACCEPTED = RESULTS / "guards.json"


def count(name: str) -> dict[str, Counts]:
    """Work counters of every tiny point of a figure, after it was compared with the brute force."""
    figure = load(name)
    tiny: dict[str, Any] = dict(figure.tiny)
    swept, values = figure.sweep
    values = tiny.pop(swept, values)
    found: dict[str, Counts] = {}
    for x in values:
        for series in figure.series:
            case = figure.make(series, figure.sizes_of(series, x, tiny), figure.seed)
            case.prepare()
            if case.check() < 1:
                raise WrongAnswer(f"{name}, {series}: nothing was compared with the brute force")
            case.repeat(Stopwatch())
            counts = {key: value for key, value in case.counts().items() if not key.endswith("bytes")}
            found[f"{series} at {swept}={x}"] = counts
    return found


def accepted(name: str) -> dict[str, Counts]:
    """The counts that the figure is held to."""
    known: dict[str, dict[str, Counts]] = json.loads(ACCEPTED.read_text()) if ACCEPTED.exists() else {}
    return known.get(name, {})


def accept(name: str, found: dict[str, Counts]) -> None:
    """Hold the figure to these counts from now on."""
    known = json.loads(ACCEPTED.read_text()) if ACCEPTED.exists() else {}
    known[name] = found
    kept = {figure: known[figure] for figure in sorted(known) if figure in names()}
    ACCEPTED.write_text(json.dumps(kept, indent=1) + "\n")


def differences(found: dict[str, Counts], before: dict[str, Counts]) -> list[str]:
    """What changed, one line each."""
    said = []
    for point in sorted(found.keys() | before.keys()):
        new, old = found.get(point, {}), before.get(point, {})
        said += [
            f"{point}: {key} was {old.get(key)}, is {new.get(key)}"
            for key in sorted(new.keys() | old.keys())
            if new.get(key) != old.get(key)
        ]
    return said
