"""The processes that a Spark has started."""

from __future__ import annotations

from pathlib import Path


def below(roots: list[int]) -> dict[int, str]:
    """All processes below these, and their command lines."""
    parents, lines = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                lines[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
    found: set[int] = set()
    while more := {pid for pid, parent in parents.items() if parent in found | set(roots)} - found:
        found |= more
    return {pid: lines[pid] for pid in found}


def python_workers(roots: list[int]) -> list[int]:
    """The Python workers below these: what the daemons fork."""
    processes = below(roots)
    daemons = [pid for pid, line in processes.items() if "nearcast.cluster.daemon" in line]
    return [pid for pid in below(daemons) if pid in processes]
