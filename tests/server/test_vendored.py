"""What the page brings along: files of others, unchanged and with their licences; and nothing from elsewhere."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

import nearcast
from nearcast.workload import city

PAGE = Path(nearcast.__file__).parent / "server" / "page"
VENDORED = [PAGE / "vendor", Path(__file__).with_name("vendor")]
OWN = sorted(path for path in PAGE.iterdir() if path.is_file())


@pytest.mark.parametrize("folder", VENDORED, ids=["page", "tests"])
def test_vendored_files_are_those_of_the_packages(folder: Path) -> None:
    sums = dict(line.split()[::-1] for line in (folder / "SHA256SUMS").read_text().splitlines())
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    assert set(files) - {"SHA256SUMS", "README.md"} == set(sums)
    for name, digest in sums.items():
        assert hashlib.sha256(files[name].read_bytes()).hexdigest() == digest, name
    packages = {name.partition("/")[0] for name in sums}
    assert {name.partition("/")[0] for name in sums if "LICENSE" in name} == packages


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_the_page_names_no_other_host_and_no_missing_file(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    hosts = set(re.findall(r"https?://([^/\"'\s>]+)", text))
    assert hosts <= {"www.w3.org", "127.0.0.1:8787"}
    linked = re.findall(r"""(?:from |import\(|import |new URL\(|href=|src=)"([^"]+\.(?:m?js|css|json|svg))\"""", text)
    for name in linked:
        assert (PAGE / name).is_file(), name


def test_the_page_has_the_streets_of_the_invented_city() -> None:
    """They come from ``json.dumps({"bounds": city.BOUNDS, "features": city.features()})``."""
    kept = json.loads((PAGE / "city.json").read_text(encoding="utf-8"))
    assert kept == json.loads(json.dumps({"bounds": city.BOUNDS, "features": city.features()}))
