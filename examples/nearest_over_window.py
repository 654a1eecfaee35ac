"""The three nearest over a sliding window: as old messages leave, the next best step in by themselves."""

import random

import nearcast as nc

draw = random.Random(4)
broker = nc.Broker(
    nc.Space(bounds=(0, 0, 100, 100), metric="euclidean"), window=nc.Window(count=50)
)  # the newest 50 messages live
broker.subscribe("ann", nc.Nearest(lon=50, lat=50, keywords="bike repair", k=3, match="any"))

WORDS = ("bike", "repair", "coffee", "books", "garden", "music")
mirror = []  # what a subscriber knows who only applies the updates
n_updates = 0
for number in range(1, 501):
    text = " ".join(draw.sample(WORDS, 2))
    message = nc.Message(number, draw.uniform(0, 100), draw.uniform(0, 100), text, ts=number * 1_000)
    for update in broker.publish(message):
        n_updates += 1
        if update.sign == "-":
            mirror.remove((update.message, update.score))
        else:
            mirror.append((update.message, update.score))
    mirror.sort(key=lambda entry: (entry[1], -entry[0]))  # nearest first; of two as near, the newer
    assert mirror == broker.results("ann")  # at every moment, not just at the end
    if number % 100 == 0:
        nearest = ", ".join(f"{id} at {distance:.1f}" for id, distance in mirror)
        print(f"after {number} messages, {n_updates} updates: {nearest}")

# Prints:
# after 100 messages, 33 updates: 93 at 7.4, 84 at 8.4, 70 at 9.1
# after 200 messages, 65 updates: 192 at 5.0, 199 at 14.4, 196 at 14.7
# after 300 messages, 81 updates: 286 at 16.9, 263 at 17.4, 287 at 24.1
# after 400 messages, 103 updates: 370 at 10.9, 355 at 11.6, 364 at 12.2
# after 500 messages, 127 updates: 486 at 6.3, 479 at 7.8, 454 at 12.5
