"""Two files of JSON lines go through `nearcast run`, on a Spark inside this machine; updates and rejects come out."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

START = 1_700_000_000_000

SUBSCRIPTIONS = [
    {"id": "bob", "kind": "within", "region": [-74.0, 40.7, -73.9, 40.8], "keywords": "fire OR smoke"},
    {"id": "ann", "kind": "nearest", "lon": -73.98, "lat": 40.75, "keywords": "ramen", "k": 1},
    {"event": "move", "id": "ann", "lon": -73.95, "lat": 40.70, "ts": START + 150_000},
]
MESSAGES = [
    {"id": 1, "lon": -73.97, "lat": 40.76, "text": "New ramen place", "ts": START},
    {"id": 2, "lon": -73.95, "lat": 40.72, "text": "Smoke over the harbour", "ts": START + 60_000},
    {"id": 3, "lon": -73.95, "lat": 40.71, "text": "Ramen by the bridge", "ts": START + 120_000},
    {"id": 4, "lon": -73.95, "lat": 97.0, "text": "Ramen past the pole", "ts": START + 180_000},
]


def write_lines(path, rows):
    """One JSON object a line."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    write_lines(folder / "subscriptions.jsonl", SUBSCRIPTIONS)
    write_lines(folder / "messages.jsonl", MESSAGES)
    command = [sys.executable, "-m", "nearcast.cli.main", "run", "--window-count", "1000", "--shards", "1"]
    command += ["--subscriptions", str(folder / "subscriptions.jsonl"), "--messages", str(folder / "messages.jsonl")]
    subprocess.run([*command, "--out", str(folder / "out")], check=True, stdout=subprocess.DEVNULL)

    updates = pq.read_table(folder / "out" / "updates").sort_by([("batch", "ascending"), ("seq", "ascending")])
    for update in updates.to_pylist():
        score = "" if update["score"] is None else f"{update['score']:.0f} m"
        print(f"{update['subscription']}  {update['sign']} {update['message']}  {score}".rstrip())
    for path in sorted((folder / "out" / "rejects").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            print("rejected:", json.loads(line)["reason"])

# Prints:
# ann  + 1  1395 m
# bob  + 2
# ann  - 1  1395 m
# ann  + 3  1112 m
# rejected: lat must be within [-90, 90] under haversine (plain coordinates: metric="euclidean"), got 97.0
