"""The example job runs under `spark-submit`, the notebook from cell to cell, and frames through Spark Connect."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

import nearcast.spark as ns
from nearcast.spark.session.session import SMALL_JAVA

ROOT = Path(__file__).parents[2]
HOME = Path(pyspark.__file__).parent
JOB = ROOT / "examples" / "spark_job.py"

CONNECT = """
import sys
from pyspark.sql import SparkSession
import nearcast as nc
import nearcast.spark as ns
sys.path.insert(0, sys.argv[1])
from spark_job import SPACE, made_up
spark = SparkSession.builder.remote("local[1]").config("spark.ui.enabled", "false").getOrCreate()
assert "connect" in type(spark).__module__, type(spark)
spark.conf.set("spark.sql.shuffle.partitions", 2)
answers = ns.answers(*made_up(spark), space=SPACE, window=nc.Window(age=3600))
rows = sorted((row.ts, row.subscription, row.sign, row.message) for row in ns.updates(answers).collect())
print([row[1:] for row in rows])
print([row.field for row in ns.rejects(answers).collect()])

folder = sys.argv[2]
messages, subscriptions = made_up(spark)
messages.orderBy("ts").coalesce(1).write.parquet(folder + "/messages")
subscriptions.write.parquet(folder + "/subscriptions")
provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
told = spark.readStream.schema(messages.schema).parquet(folder + "/messages")
asked = spark.readStream.schema(subscriptions.schema).parquet(folder + "/subscriptions")
out = folder + "/out"
answers = ns.answers(told, asked, space=SPACE, window=nc.Window(age=3600), shards=2, store=f"file://{out}/store")
sink = answers.writeStream.format("parquet").option("checkpointLocation", out + "/checkpoint")
query = sink.trigger(availableNow=True).start(out + "/answers")
query.awaitTermination()
found = ns.updates(spark.read.parquet(out + "/answers")).collect()
print([row[1:] for row in sorted((row.ts, row.subscription, row.sign, row.message) for row in found)])
spark.stop()
"""


def run(*command: str) -> str:
    environment = {
        **os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
        "JAVA_TOOL_OPTIONS": SMALL_JAVA,  # half of the processor time
    }  # fmt: skip
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.spark
def test_the_job_runs_under_spark_submit(spark: Any, tmp_path: Path) -> None:
    names = ("messages", "subscriptions")
    for name, frame in zip(names, runpy.run_path(str(JOB))["made_up"](spark), strict=True):
        frame.write.parquet(str(tmp_path / name))
    paths = [str(tmp_path / name) for name in (*names, "answers")]
    submit = [str(HOME / "bin" / "spark-submit"), "--master", "local[2]", "--conf", "spark.ui.enabled=false"]
    run(*submit, str(JOB), *paths)
    answers = spark.read.parquet(paths[2])
    heard = ns.updates(answers).orderBy("ts", "subscription", "sign").collect()
    assert [(row.subscription, row.sign, row.message) for row in heard] == [
        ("ann", "+", "m1"), ("bob", "+", "m2"), ("ann", "+", "m3"), ("ann", "-", "m1"),
    ]  # fmt: skip


def test_the_job_prints_what_it_says(
    spark: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(spark), "stop", lambda session: None)  # other tests go on with it
    monkeypatch.setattr(sys, "argv", [str(JOB)])
    runpy.run_path(str(JOB), run_name="__main__")
    said = JOB.read_text(encoding="utf-8").partition("\n# Prints:\n")[2]
    assert "".join(f"# {line}\n" for line in capsys.readouterr().out.splitlines()) == said


def test_the_notebook_runs(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    cells = json.loads((ROOT / "examples" / "spark_frames.ipynb").read_text())["cells"]
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "the notebook is kept without output"
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    assert "ann" in capsys.readouterr().out
    assert [tuple(row) for row in names["heard"].collect()] == [
        ("ann", "+", "m1"), ("bob", "+", "m2"), ("ann", "+", "m3"), ("ann", "-", "m1"),
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.spark
def test_frames_and_streams_come_through_spark_connect(tmp_path: Path) -> None:
    pytest.importorskip("grpc_status", reason="pip install 'pyspark[connect]'")
    told = run(sys.executable, "-c", CONNECT, str(ROOT / "examples"), str(tmp_path)).splitlines()
    heard = "[('ann', '+', 'm1'), ('bob', '+', 'm2'), ('ann', '+', 'm3'), ('ann', '-', 'm1')]"
    assert told[-3:] == [heard, "['lat']", heard]
