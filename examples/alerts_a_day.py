"""How many alerts a day? Try subscriptions on last week's messages before anybody is woken by them."""

import pandas as pd

import nearcast as nc

hours = pd.date_range("2026-05-04", periods=7 * 24, freq="h", tz="UTC")
past = pd.DataFrame(
    {
        "id": range(len(hours)),
        "lon": [13.30 + 0.002 * (i % 97) for i in range(len(hours))],
        "lat": [52.45 + 0.001 * (i % 89) for i in range(len(hours))],
        "text": [
            ("Road closed", "Crash, two lanes shut", "Street market", "Crash on the bridge")[i % 4]
            for i in range(len(hours))
        ],
        "ts": hours,
    }
)
candidates = [
    ("all crashes", nc.Within(nc.Box(13.30, 52.45, 13.50, 52.55), "crash")),
    ("near the bridge", nc.Within(nc.Circle(13.40, 52.50, radius=1_500), "crash OR closed")),
    ("too strict", nc.Within(nc.Circle(13.40, 52.50, radius=100), "crash AND bridge")),
]
heard = nc.backtest(candidates, past, space=nc.Space(bounds=(13.0, 52.3, 13.8, 52.7)))

for row in heard.summary.to_pylist():
    print(
        f"{row['subscription']:15}  {row['alerts']:3} alerts, {row['alerts'] / 7:4.1f} a day, at most {row['busiest']}"
    )
for row in heard.per_day.to_pylist():
    if row["subscription"] == "near the bridge":
        print(f"{row['day']:%A}: {row['alerts']}")

# Prints:
# all crashes       84 alerts, 12.0 a day, at most 12
# near the bridge   23 alerts,  3.3 a day, at most 8
# too strict         0 alerts,  0.0 a day, at most 0
# Tuesday: 4
# Wednesday: 8
# Saturday: 5
# Sunday: 6
