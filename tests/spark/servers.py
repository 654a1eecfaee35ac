"""Servers that tests talk to: a real Redis, the Kafka that the client carries for tests, and S3 by moto."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind((host, 0))
        return int(free.getsockname()[1])


def wait_for(host: str, port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server listens."""
    for _ in range(1200):
        with socket.socket() as asking:
            if asking.connect_ex((host, port)) == 0:
                return
        assert process.poll() is None, "the server has ended"
        time.sleep(0.05)
    raise AssertionError("the server does not listen")


@contextmanager
def redis_server(folder: Path, *words: str, host: str = "127.0.0.1") -> Iterator[str]:
    """A Redis of our own; its address."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    port = free_port(host)
    command = [program, "--port", str(port), "--bind", host, "--save", "", "--dir", str(folder), *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_for(host, port, process)
        yield f"redis://{host}:{port}"
    finally:
        process.terminate()
        process.wait()


@contextmanager
def kafka_server() -> Iterator[str]:
    """A broker that speaks Kafka's protocol over sockets and keeps records in memory, in four partitions."""
    kafka = pytest.importorskip("confluent_kafka", reason="the client is not installed: pip install 'nearcast[kafka]'")
    host = kafka.Producer({"bootstrap.servers": "replaced", "test.mock.num.brokers": 1, "log_level": 2})
    (broker,) = host.list_topics(timeout=30).brokers.values()
    yield f"{broker.host}:{broker.port}"
    del host


@contextmanager
def s3_server(host: str = "127.0.0.1") -> Iterator[str]:
    """An S3 server with a bucket `nearcast`; its address."""
    pytest.importorskip("moto.server", reason="moto is not installed")
    port = free_port(host)
    code = "import sys; from moto.server import main; main(['-H', sys.argv[1], '-p', sys.argv[2]])"
    quiet = {**os.environ, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    with open(os.devnull, "wb") as nothing:
        process = subprocess.Popen(
            [sys.executable, "-c", code, host, str(port)], stdout=nothing, stderr=nothing, env=quiet
        )
    try:
        wait_for(host, port, process)
        import urllib.request

        asked = urllib.request.Request(f"http://{host}:{port}/nearcast", method="PUT")
        asked.add_header("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request")
        urllib.request.urlopen(asked).close()
        yield f"http://{host}:{port}"
    finally:
        process.terminate()
        process.wait()
