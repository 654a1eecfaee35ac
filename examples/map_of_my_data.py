"""A map of my own data: what a broker holds now, and a run to replay. Both are pages that need no network."""

import tempfile
from pathlib import Path

import nearcast as nc

START = 1_777_622_400_000  # epoch milliseconds
MINUTE = 60_000
out = Path(tempfile.mkdtemp(prefix="nearcast-"))

space = nc.Space(bounds=(13.0, 52.3, 13.8, 52.7))
window = nc.Window(age=3600)
broker = nc.Broker(space, window)

asked = [
    nc.Subscription(
        "mitte", nc.Within(nc.Polygon([(13.36, 52.50), (13.43, 52.50), (13.41, 52.54)]), "closed OR crash")
    ),
    nc.Subscription("ann", nc.Nearest(13.40, 52.52, "ramen", k=2)),
]
posts = [
    nc.Message("m1", 13.40, 52.51, "Road closed", ts=START),
    nc.Message("m2", 13.39, 52.53, "Ramen, hand-made", ts=START + 5 * MINUTE),
    nc.Message("m3", 13.42, 52.51, "Crash, but nobody hurt", ts=START + 20 * MINUTE),
    nc.Message("m4", 13.41, 52.52, "The best ramen", ts=START + 50 * MINUTE),
]
heard = [broker.subscribe_many(asked), broker.publish(posts)]

now = broker.map(title="Berlin, now")  # in a notebook, as the last line of a cell, it is shown
print(now.save(out / "now.html").name)

run = nc.report(posts, asked, heard, title="Berlin, this morning", space=space, window=window)
print(run.save(out / "run.html").name)

# Prints:
# now.html
# run.html
