"""A geofence that follows its owner: a courier rides through a city, the region of her question moves with her.

She hears what comes into reach (`+`) and what drops out of it (`-`).
"""

import nearcast as nc

NINE = 1_700_038_800_000
MINUTE = 60_000

city = nc.Space(bounds=(13.30, 52.45, 13.50, 52.57), metric="haversine")
broker = nc.Broker(city, window=nc.Window(age=45 * 60))  # news is live for 45 minutes


def reach(lon, lat):
    """Everything within 600 metres."""
    return nc.Circle(lon, lat, radius=600)


broker.subscribe("courier", nc.Within(reach(13.380, 52.516), "closed OR crash OR roadworks"))
broker.publish(
    [
        nc.Message("bridge", 13.400, 52.518, "Bridge closed until noon", ts=NINE),
        nc.Message("crash", 13.412, 52.521, "Crash at the big crossing, two lanes shut", ts=NINE + 2 * MINUTE),
        nc.Message("market", 13.402, 52.519, "Market day, fresh strawberries", ts=NINE + 3 * MINUTE),
    ]
)

for minute, lon, lat in [(5, 13.386, 52.517), (10, 13.397, 52.518), (15, 13.406, 52.520), (20, 13.413, 52.522)]:
    broker.advance(NINE + minute * MINUTE)
    heard = [f"{update.sign} {update.message}" for update in broker.move("courier", region=reach(lon, lat))]
    print(f"09:{minute:02}  {', '.join(heard) or 'nothing new'}")

# Nobody says anything, but time passes: the crash was reported at 9:02 and is forgotten 45 minutes later.
for minute in (46, 47):
    broker.advance(NINE + minute * MINUTE)
    print(f"09:{minute:02}  within reach: {[message for message, _ in broker.results('courier')]}")

# Prints:
# 09:05  nothing new
# 09:10  + bridge
# 09:15  + crash
# 09:20  - bridge
# 09:46  within reach: ['crash']
# 09:47  within reach: []
