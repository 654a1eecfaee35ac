"""The built wheel and sdist, tried in a clean environment as a new user would: `make release-check` runs it.

It builds both into out/dist, looks into them, installs the wheel (with Spark and the server) into an environment of its
own, away from the checkout, and there runs the lines of the README, the commands, and the demo of the server.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "out" / "dist"
NEEDED = {"nearcast/py.typed", "nearcast/page/page.html", "nearcast/server/page/index.html"}


def main() -> int:
    """Build, look, install, try; the first failure ends it."""
    wheel, sdist = build()
    look(wheel, sdist)
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        place = Path(folder)
        programs = install(wheel, place)
        version = shown([programs / "nearcast", "--version"], place)
        say("version", version)
        if version != f"nearcast {wheel.name.split('-')[1]}":
            raise SystemExit(f"the wheel is {wheel.name}, but the command says {version}")
        try_readme(programs, place)
        try_commands(programs, place)
        try_server(programs, place)
    say("release", "all well")
    return 0


def say(what: str, found: str) -> None:
    """Tell how far it is."""
    print(f"{what}: {found}", flush=True)


def shown(words: list[object], place: Path) -> str:
    """What a command prints; it must succeed, and knows nothing of the checkout."""
    done = subprocess.run(
        list(map(str, words)), cwd=place, env=clean(place), capture_output=True, text=True, check=False, timeout=1800
    )
    if done.returncode:
        raise SystemExit(f"failed: {shlex.join(map(str, words))}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout.strip()


def clean(place: Path) -> dict[str, str]:
    """An environment without the paths of this one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL", "NEARCAST"))}
    return {**kept, "HOME": str(place), "PIP_DISABLE_PIP_VERSION_CHECK": "1", "NUMBA_CACHE_DIR": str(place / "kernels")}


def build() -> tuple[Path, Path]:
    """The wheel, made from the sdist, and the sdist."""
    shutil.rmtree(OUT, ignore_errors=True)
    done = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", OUT, ROOT], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"failed: python -m build\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    (wheel,), (sdist,) = OUT.glob("*.whl"), OUT.glob("*.tar.gz")
    say("built", f"{wheel.name}, {sdist.name}")
    return wheel, sdist


def look(wheel: Path, sdist: Path) -> None:
    """Every source is in both, and so is what sources need."""
    sources = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "nearcast").rglob("*.py")}
    in_wheel = set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as file:
        in_sdist = {name.partition("/")[2] for name in file.getnames()}
    in_both = sources | NEEDED
    missing = sorted(in_both - in_wheel)
    missing += sorted(({f"src/{name}" for name in in_both} | {"README.md", "LICENSE", "pyproject.toml"}) - in_sdist)
    if missing:
        raise SystemExit(f"not in the archives: {', '.join(missing)}")
    strange = sorted(name for name in in_wheel if not name.startswith(("nearcast/", "nearcast-")))
    if strange:
        raise SystemExit(f"in the wheel, and not part of the package: {', '.join(strange[:5])}")
    say("looked", f"{len(in_wheel)} files in the wheel, {len(in_sdist)} in the sdist")


def install(wheel: Path, place: Path) -> Path:
    """An environment with the wheel; returns the folder of its programs."""
    subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
    programs = place / "venv" / "bin"
    pins = ["-c", ROOT / "constraints.txt"]
    shown([programs / "pip", "install", "--quiet", *pins, f"{wheel}[serve,spark]"], place)
    where = shown([programs / "python", "-c", "import nearcast; print(nearcast.__file__)"], place)
    if not where.startswith(str(place)):
        raise SystemExit(f"the environment imports {where}")
    say("installed", wheel.name)
    return programs


def try_readme(programs: Path, place: Path) -> None:
    """The dozen lines print what the README says; the files go through Spark."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[0]
    printed = re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[0]
    (place / "readme.py").write_text(code)
    found = shown([programs / "python", "readme.py"], place)
    if found != printed.strip():
        raise SystemExit(f"the README says\n{printed}\nbut it prints\n{found}")
    say("README", "the dozen lines print what they should")
    shell = next(
        block for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL) if "nearcast run" in block
    )
    (place / "readme.sh").write_text(shell.replace(".venv/bin/", f"{programs}/"))
    shown(["sh", "-e", "readme.sh"], place)
    updates = list((place / "out" / "updates").rglob("*.*"))
    if not any(path.stat().st_size for path in updates if path.is_file()):
        raise SystemExit("nearcast run wrote no updates")
    say("README", "nearcast run wrote its updates")


def try_commands(programs: Path, place: Path) -> None:
    """Every command explains itself."""
    for name in ("run", "demo", "plan", "serve", "warm", "cache", "bench"):
        if "usage: nearcast" not in shown([programs / "nearcast", name, "--help"], place):
            raise SystemExit(f"nearcast {name} --help says nothing")
    say("commands", "all explain themselves")


def try_server(programs: Path, place: Path) -> None:
    """The demo is served: its page, its health, and subscriptions that hear something."""
    words = [str(programs / "nearcast"), "serve", "--demo", "--port", "0"]
    with (place / "serve.log").open("w") as log:
        server = subprocess.Popen(words, cwd=place, env=clean(place), stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert server.stdout
        address = server.stdout.readline().rpartition(" ")[2].strip()
        if not address.startswith("http"):
            raise SystemExit(f"nearcast serve does not start:\n{(place / 'serve.log').read_text()[-2000:]}")
        page = wait_for(address + "/")
        if "<html" not in page.lower():
            raise SystemExit("the page of the server is no page")
        for _ in range(120):
            if json.loads(wait_for(address + "/v1/subscriptions")):
                break
            time.sleep(1)
        wait_for(address + "/healthz")
        say("server", f"the demo runs, {len(page):,} characters of page")
    finally:
        server.terminate()
        server.wait(timeout=60)


def wait_for(address: str) -> str:
    """What an address answers, once it does."""
    for _ in range(240):
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                return str(answer.read().decode())
        except OSError:
            time.sleep(0.5)
    raise SystemExit(f"{address} does not answer")


if __name__ == "__main__":
    sys.exit(main())
