"""A job for `spark-submit`: stored messages and subscriptions in, a table of answers out.

    spark-submit examples/spark_job.py MESSAGES SUBSCRIPTIONS ANSWERS

The first two are Parquet with the columns of `ns.MESSAGES` and `ns.SUBSCRIPTIONS`, at paths or URIs that every host can
read; the last is where answers are written. Without them the job makes up a few rows and shows what comes out.
"""

import os
import sys

from pyspark.sql import DataFrame, SparkSession

import nearcast as nc
import nearcast.spark as ns

SPACE = nc.Space(bounds=(-74.3, 40.5, -73.7, 40.9))

POSTS = [
    ("m1", -73.97, 40.76, "New ramen place", 1_700_000_000_000),
    ("m2", -73.95, 40.75, "Smoke over the bridge", 1_700_000_001_000),
    ("m3", -73.98, 40.74, "Ramen and sushi, two for one", 1_700_000_002_000),
    ("m4", -73.98, 95.0, "Ramen at the pole", 1_700_000_003_000),
]
ASKED = [
    ("ann", "nearest", -73.98, 40.75, None, "ramen", 1),
    ("bob", "within", None, None, "[-74.0, 40.7, -73.9, 40.8]", "fire OR smoke", None),
]


def made_up(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    """A few rows."""
    messages = spark.createDataFrame(POSTS, "id string, lon double, lat double, text string, ts bigint")
    columns = "id string, kind string, lon double, lat double, region string, keywords string, k bigint"
    return messages, spark.createDataFrame(ASKED, columns)


def main() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the Python of workers, unless the cluster names another
    spark = SparkSession.builder.appName("nearcast").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if len(sys.argv) == 4:
        messages, subscriptions = spark.read.parquet(sys.argv[1]), spark.read.parquet(sys.argv[2])
        answers = ns.answers(messages, subscriptions, space=SPACE, window=nc.Window(age=3600), shards=2)
        answers.write.mode("overwrite").parquet(sys.argv[3])
    else:
        answers = ns.answers(*made_up(spark), space=SPACE, window=nc.Window(age=3600)).cache()
        for row in ns.updates(answers).orderBy("ts", "subscription", "sign").collect():
            print(row.subscription, row.sign, row.message)
        for row in ns.rejects(answers).collect():
            print("refused:", row.reason)
    spark.stop()


if __name__ == "__main__":
    main()

# Prints:
# ann + m1
# bob + m2
# ann + m3
# ann - m1
# refused: lat must be within [-90, 90] under haversine (plain coordinates: metric="euclidean"), got 95.0
