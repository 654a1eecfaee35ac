"""Several hosts on one machine: Spark workers, each with its own network address and its own view of the disk.

A worker runs in a network namespace of its own, joined to the others by a bridge, and in a mount namespace in which
``/tmp`` is empty. So it sees nothing of the driver's folders. What hosts share: the installed package, the servers that
listen on the bridge (S3, Redis), and one folder for Spark's own checkpoint, since the PySpark that pip installs has no
file system of Hadoop's for S3. It takes root, `ip` and `unshare`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nearcast.spark.session.java import find_java
from nearcast.spark.session.session import SMALL_JAVA, make_home
from spark.servers import free_port, wait_for

ROOT = Path(__file__).resolve().parent.parent.parent
CHILD = """
mount --make-rprivate /
mount -t tmpfs tmpfs /tmp
exec "$@"
"""


def missing() -> str | None:
    """Why hosts cannot be made here; None if they can."""
    if os.geteuid() != 0:
        return "hosts of their own take root"
    for program in ("ip", "unshare"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    name = f"nct{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode != 0:
        return "network namespaces cannot be made here"
    _ip("netns", "del", name)
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        return "mount namespaces cannot be made here"
    return None


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Hosts:
    """A bridge, a master on it, and workers of one core, each on a host of its own."""

    def __init__(self, n_workers: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="nearcast-hosts-"))  # of the driver's host: below /tmp
        self.shared = Path(tempfile.mkdtemp(prefix="nearcast-shared-", dir="/var/tmp"))
        number = os.getpid()
        self._net = f"10.{100 + number // 250 % 100}.{number % 250}"
        self.address = f"{self._net}.1"
        self._bridge = f"ncb{number}"
        self._spaces: list[str] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            self._make(n_workers)
        except BaseException:
            self.close()
            raise

    def _make(self, n_workers: int) -> None:
        self._home = self.shared / "home"
        make_home(self._home)
        self.environment = {
            **os.environ, "JAVA_HOME": str(find_java().home), "SPARK_HOME": str(self._home),
            "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}",
            "AWS_EC2_METADATA_DISABLED": "true", "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": SMALL_JAVA,
            "SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1",
        }  # fmt: skip
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("addr", "add", f"{self.address}/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        port = free_port(self.address)
        self.url = f"spark://{self.address}:{port}"
        master = ["org.apache.spark.deploy.master.Master", "--host", self.address, "--port", str(port)]
        self._start("master", self.address, [], [*master, "--webui-port", "0"])
        wait_for(self.address, port, self._processes[0])
        for worker in range(n_workers):
            self._start_worker(worker)

    def _start_worker(self, worker: int) -> None:
        space, host = f"{self._bridge}-{worker}", f"{self._net}.{10 + worker}"
        inner, outer = f"nci{os.getpid() % 100_000}{worker}", f"nco{os.getpid() % 100_000}{worker}"
        _ip("netns", "add", space)
        self._spaces.append(space)
        _ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", space)
        _ip("link", "set", outer, "master", self._bridge, "up")
        _ip("-n", space, "addr", "add", f"{host}/24", "dev", inner)
        _ip("-n", space, "link", "set", inner, "up")
        _ip("-n", space, "link", "set", "lo", "up")
        own = ["ip", "netns", "exec", space, "unshare", "--mount", "sh", "-ec", CHILD, "sh"]
        words = ["org.apache.spark.deploy.worker.Worker", "-c", "1", "-m", "2g", "--host", host, "--webui-port", "0"]
        self._start(f"worker-{worker}", host, own, [*words, "-d", f"/tmp/work-{worker}", self.url])

    def _start(self, name: str, address: str, own: list[str], words: list[str]) -> None:
        environment = {**self.environment, "SPARK_LOCAL_IP": address}
        command = [*own, str(self._home / "bin" / "spark-class"), *words]
        with open(self.folder / f"{name}.log", "ab") as log:
            made = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        self._processes.append(made)

    def start_driver(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a Python program as a driver, on the host of the master."""
        environment = {**self.environment, "SPARK_LOCAL_IP": self.address}
        with open(self.folder / "driver.log", "ab") as log:
            return subprocess.Popen(
                [sys.executable, *words],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.folder,
            )

    @property
    def pids(self) -> list[int]:
        """The processes of workers."""
        return [process.pid for process in self._processes[1:]]

    def close(self) -> None:
        """Stop and remove everything that was made."""
        for process in self._processes:
            stop(process)
        for space in self._spaces:
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("netns", "del", space)
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("link", "del", self._bridge)
        for folder in (self.folder, self.shared):
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def hosts(n_workers: int) -> Iterator[Hosts]:
    """Hosts that are gone afterwards, also if this process is told to end."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    made = Hosts(n_workers)
    try:
        yield made
    finally:
        made.close()
        signal.signal(signal.SIGTERM, before)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that was started here, and those it started."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


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


def executors(roots: list[int]) -> list[int]:
    """The executors below these."""
    return [pid for pid, line in below(roots).items() if "CoarseGrainedExecutorBackend" in line and "java" in line]


def python_workers(roots: list[int]) -> list[int]:
    """The Python workers below these: what the daemons fork."""
    daemons = [pid for pid, line in below(roots).items() if "daemon" in line and "python" in line.split(" ")[0]]
    return list(below(daemons)) if daemons else []
