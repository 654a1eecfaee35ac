"""What docs/spark.md shows of data frames runs: its blocks, with a folder in the place of the bucket."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")
BATCH, STREAM, ANALYZED, *_ = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
ASKED = {"id": "ann", "kind": "within", "region": [-74.0, 40.7, -73.9, 40.8], "keywords": "fire OR smoke"}
SAID = [
    {"id": "m1", "lon": -73.95, "lat": 40.75, "text": "Smoke on 5th!", "ts": 1_700_000_000_000},
    {"id": "m2", "lon": -73.95, "lat": 95.0, "text": "Smoke at no place", "ts": 1_700_000_001_000},
]


def test_the_blocks_about_frames_run(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "subscriptions").write_text(json.dumps(ASKED) + "\n")
    (tmp_path / "said.jsonl").write_text("".join(json.dumps(message) + "\n" for message in SAID))
    spark.read.json(str(tmp_path / "said.jsonl")).write.parquet(str(tmp_path / "posts"))
    names: dict[str, Any] = {"spark": spark}

    run(BATCH, names, tmp_path)
    told = spark.read.parquet(str(tmp_path / "updates")).collect()
    assert [(row.subscription, row.sign, row.message) for row in told] == [("ann", "+", "m1")]
    refused = spark.read.json(str(tmp_path / "rejects")).collect()
    assert [(row.message, row.field) for row in refused] == [("m2", "lat")]

    run(ANALYZED, names, tmp_path)
    assert names["ns"].updates(names["answers"]).count() == 1

    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", 4)  # as many as there are shards, or more
    try:
        run(STREAM, names, tmp_path)
        (query,) = spark.streams.active
        query.processAllAvailable()
        query.stop()
        assert spark.table("answers").where("outcome = 'update'").count() == 1
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
        spark.sql("DROP TABLE IF EXISTS answers")


def run(block: str, names: dict[str, Any], folder: Path) -> None:
    exec(compile(block.replace("s3://bucket", folder.as_uri()), "docs/spark.md", "exec"), names)
