"""One broker, four kinds of question, a few messages: what each subscriber is told."""

import nearcast as nc

START = 1_700_000_000_000  # epoch milliseconds

# A small town: plain coordinates in kilometres, so that the numbers are easy to check by hand.
town = nc.Space(bounds=(0, 0, 6, 8), metric="euclidean")  # its diagonal is 10 km
broker = nc.Broker(town, window=nc.Window(age=3600))

broker.subscribe("fire brigade", nc.Within(nc.Box(0, 0, 3, 8), "fire OR (smoke AND NOT barbecue)"))
broker.subscribe("noodle fan", nc.Similar(lon=1, lat=1, keywords="ramen noodles", delta=0.5, tau=0.7))
broker.subscribe("food blog", nc.TopK(lon=3, lat=4, keywords="ramen sushi", k=1, alpha=0.4))
broker.subscribe("driver", nc.Nearest(lon=5, lat=5, keywords="free parking", k=1))

messages = [
    nc.Message("m1", 2, 2, "Smoke over the old mill", ts=START),
    nc.Message("m2", 2, 3, "Barbecue tonight, lots of smoke", ts=START + 60_000),
    nc.Message("m3", 1, 2, "Ramen, hand-made noodles", ts=START + 120_000),
    nc.Message("m4", 5, 1, "Free parking behind the station", ts=START + 180_000),
    nc.Message("m5", 5, 4, "Parking is free here until five", ts=START + 240_000),
    nc.Message("m6", 3, 4, "Sushi and ramen, all you can eat", ts=START + 300_000),
]
for message in messages:
    # Between subscribers updates come in no particular order; sorted keeps the order that each of them sees.
    for update in sorted(broker.publish(message), key=lambda update: update.subscription):
        score = "" if update.score is None else f"{update.score:.3f}"
        print(f"{update.subscription:12}  {update.sign} {update.message}  {score}".rstrip())

why = broker.explain("fire brigade", "m2")
print(f"\nm2 for the fire brigade: {why.reason} (forbidden words: {why.parts['forbidden words']})")

# Prints:
# fire brigade  + m1
# food blog     + m3  0.499
# noodle fan    + m3  0.950
# driver        + m4  4.000
# driver        - m4  4.000
# driver        + m5  1.000
# food blog     - m3  0.499
# food blog     + m6  0.721
#
# m2 for the fire brigade: not in the result: its words do not satisfy the expression (forbidden words: ['barbecue'])
