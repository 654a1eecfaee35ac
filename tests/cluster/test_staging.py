"""Reading on Spark gives the same events in the same order as reading in one process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from cluster import scenes
from nearcast.cluster.intake import Unread, in_memory
from nearcast.cluster.sources import Input, find_files
from nearcast.cluster.staging import LARGE_BYTES, LARGE_ENTRIES, is_large, on_spark
from nearcast.cluster.streams import Offset


def test_spark_orders_events_like_one_process(spark: Any, tmp_path: Path) -> None:
    made = scenes.events(5, 300)
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        lines = [json.dumps(event, ensure_ascii=False) for event in made[number::3]]
        (folder / f"{number}.jsonl").write_text("\n".join([*lines, "broken {"]) + "\n", encoding="utf-8")
    files = find_files([Input(str(folder), "events")])
    alone = pa.concat_tables(in_memory(files, []).tables)
    spread = pa.concat_tables(on_spark(spark, tmp_path / "sorted")(files, []).tables)
    assert alone.num_rows == 303
    assert spread.to_pylist() == alone.to_pylist()
    assert not (tmp_path / "sorted").exists()


def test_only_large_inputs_go_to_spark(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1, "lon": 0, "lat": 0, "text": "x"}\n')
    files = find_files([Input(str(tmp_path), "messages")])
    assert not is_large(files, [])
    assert is_large([files[0]._replace(size=LARGE_BYTES)], [])
    unread = Unread(None, Input("redis://a/b", "events"), Offset(), LARGE_ENTRIES)
    assert is_large([], [unread])
    assert not is_large(files, [unread._replace(n_entries=LARGE_ENTRIES - 1)])
