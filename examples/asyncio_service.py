"""A broker inside asyncio: messages come in from several tasks, and each subscriber has a queue of updates.

A broker's calls block, so each is made in a thread of the pool; the event loop goes on meanwhile. The broker lets in
one call at a time by itself.
"""

import asyncio
from collections import defaultdict

import nearcast as nc

START = 1_700_000_000_000  # epoch milliseconds

queues: defaultdict[str | int, asyncio.Queue[nc.Update]] = defaultdict(asyncio.Queue)


async def publish(broker: nc.Broker, message: nc.Message) -> None:
    """Publish one message, and hand its updates to whoever they are for."""
    for update in await asyncio.to_thread(broker.publish, message):
        queues[update.subscription].put_nowait(update)


async def main() -> None:
    space = nc.Space(bounds=(0, 0, 6, 8), metric="euclidean")
    broker = nc.Broker(space, window=nc.Window(age=3600))
    await asyncio.to_thread(broker.subscribe, "driver", nc.Nearest(lon=5, lat=5, keywords="free parking", k=1))
    await asyncio.to_thread(broker.subscribe, "fire brigade", nc.Within(nc.Box(0, 0, 3, 8), "fire OR smoke"))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(publish(broker, nc.Message("m1", 2, 2, "Smoke over the old mill", ts=START)))
        tasks.create_task(publish(broker, nc.Message("m2", 5, 1, "Free parking behind the station", ts=START)))
    for name, queue in sorted(queues.items()):
        update = queue.get_nowait()
        print(name, update.sign, update.message)


asyncio.run(main())

# Prints:
# driver + m2
# fire brigade + m1
