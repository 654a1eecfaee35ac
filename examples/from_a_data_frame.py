"""From a data frame: pandas in, pandas out. Frames of polars and GeoPandas, and relations of DuckDB, do as well."""

import pandas as pd

import nearcast as nc

posts = pd.DataFrame(
    {
        "id": ["p1", "p2", "p3", "p4"],
        "lon": [13.38, 13.41, 13.40, 13.45],
        "lat": [52.51, 52.52, 52.50, 52.49],
        "text": ["Crash on the bridge", "Road closed, use the tunnel", "Street market today", "Tunnel closed, crash"],
        "ts": pd.to_datetime(["2026-05-01 08:00", "2026-05-01 08:05", "2026-05-01 08:07", None], utc=True),
        "likes": [3, 0, 12, 1],  # columns that a message does not have are passed over
    }
)
wanted = pd.DataFrame(
    {
        "id": ["centre", "cyclist"],
        "kind": ["within", "nearest"],
        "keywords": ["crash OR closed", "closed"],
        "min_lon": [13.36, None], "min_lat": [52.49, None], "max_lon": [13.42, None], "max_lat": [52.53, None],
        "lon": [None, 13.44], "lat": [None, 52.50], "k": [None, 1],
    }
)  # fmt: skip

broker = nc.Broker(nc.Space(bounds=(13.0, 52.3, 13.8, 52.7)), window=nc.Window(age=3600))
broker.subscribe_many(wanted)
updates = broker.publish(posts)
if updates.rejects:  # rows that cannot be honoured are never dropped in silence
    print(updates.rejects)

frame = updates.to_pandas()
frame["time"] = pd.to_datetime(frame["ts"], unit="ms").dt.strftime("%H:%M")
told = frame.merge(posts[["id", "text"]], left_on="message", right_on="id").sort_values(
    ["ts", "subscription"], kind="stable"
)
for row in told.itertuples():
    print(row.time, row.subscription, row.sign, row.text)
print(broker.results("cyclist").to_pandas().round(0).to_string(index=False))

# Prints:
# 08:00 centre + Crash on the bridge
# 08:05 centre + Road closed, use the tunnel
# 08:05 cyclist + Road closed, use the tunnel
# 08:07 cyclist - Road closed, use the tunnel
# 08:07 cyclist + Tunnel closed, crash
# message  score
#      p4 1302.0
