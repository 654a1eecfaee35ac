"""The driver of `kill_and_compare`: files in S3 become answers in a Redis stream."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

import nearcast.spark as ns
from nearcast.spark import sources
from nearcast.spark.run.file_source import stream_frames
from nearcast.spark.run.files import Input
from nearcast.spark.session.session import SMALL_JAVA
from spark.scenes import SPACE, WINDOW

STATE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def main() -> None:
    """Answer all that is there."""
    given = json.loads(sys.argv[1])
    settings = {
        "spark.driver.host": given["host"], "spark.driver.bindAddress": given["host"], "spark.ui.enabled": "false",
        "spark.executor.cores": "1", "spark.executor.memory": "1g", "spark.local.dir": given["scratch"],
        "spark.sql.shuffle.partitions": "4", "spark.locality.wait": "0s", "spark.task.maxFailures": "8",
        "spark.speculation": "true", "spark.speculation.multiplier": "1.1", "spark.speculation.quantile": "0.1",
        "spark.speculation.interval": "100ms", "spark.python.daemon.module": "nearcast.spark.session.daemon",
        "spark.driver.extraJavaOptions": SMALL_JAVA, "spark.executor.extraJavaOptions": SMALL_JAVA,
        "spark.sql.streaming.stateStore.providerClass": STATE, "spark.ui.showConsoleProgress": "false",
    }  # fmt: skip
    builder = SparkSession.builder.master(given["master"]).appName("hosts")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    sources.register(spark)
    inputs = [Input(given["messages"], "messages"), Input(given["controls"], "subscriptions")]
    frames = stream_frames(spark, inputs, store=given["store"], batch_rows=given["batch_rows"])
    settings = {"space": SPACE, "window": WINDOW, "shards": given["shards"], "store": given["store"]}
    answers = ns.answers(frames.messages, frames.subscriptions, **settings)
    sink = answers.writeStream.format("nearcast-redis").options(url=given["redis"], stream="answers")
    query = sink.option("checkpointLocation", given["checkpoint"]).trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
