"""A service with FastAPI: JSON in, updates out as server-sent events, and nothing lost when the process is killed.

Every event is in a log on disk before its caller is answered; now and then a snapshot says up to where the log need
not be read again. Run it with `uvicorn durable_service:app`, or as a script for a short conversation.

    PUT    /subscriptions/{id}   a query in the JSON form
    POST   /messages             a message in the JSON form
    GET    /updates/{id}         server-sent events: the result so far, then every change
"""

import asyncio
import contextlib
import json
import os
import tempfile
import threading
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse

import nearcast as nc

SNAPSHOT_EVERY = 1000  # events


class DurableBroker:
    """A broker whose events are in `folder`: restoring it gives the broker that was there."""

    def __init__(self, folder: Path, space: nc.Space, window: nc.Window) -> None:
        self._folder = folder
        self._log = folder / "events.jsonl"
        self._log.touch()
        snapshots = sorted(folder.glob("*.snapshot"))  # the name is the length of the log that the snapshot stands for
        self.broker = nc.Broker.restore(snapshots[-1]) if snapshots else nc.Broker(space, window)
        self._end = int(snapshots[-1].stem) if snapshots else 0
        self._n_events = 0
        with open(self._log, "rb") as log:
            log.seek(self._end)
            for line in log:
                if not line.endswith(b"\n"):  # cut off by the end of the process; its caller had no answer
                    break
                with contextlib.suppress(nc.InvalidInput):  # refused then as now
                    self._apply(json.loads(line))
                self._end += len(line)

    def take(self, event: dict[str, Any]) -> nc.Updates:
        """Write an event down, then apply it."""
        line = json.dumps(event).encode() + b"\n"
        with open(self._log, "r+b") as log:
            log.seek(self._end)
            log.write(line)
            log.flush()
            os.fsync(log.fileno())
        self._end += len(line)
        self._n_events += 1
        updates = self._apply(event)
        if self._n_events % SNAPSHOT_EVERY == 0:
            self.snapshot()
        return updates

    def _apply(self, event: dict[str, Any]) -> nc.Updates:
        if event["event"] == "publish":
            return self.broker.publish(event["message"])
        updates = self.broker.subscribe_many([event["subscription"]], progress=False)
        if updates.rejects:
            raise nc.InvalidInput(updates.rejects[0].field, event["subscription"], updates.rejects[0].reason)
        return updates

    def snapshot(self) -> None:
        """Write the broker; the log before it is no longer needed."""
        older = list(self._folder.glob("*.snapshot"))
        self.broker.snapshot(self._folder / f"{self._end:020}.snapshot")
        for path in older:
            path.unlink()


def make_app(folder: Path) -> FastAPI:
    app = FastAPI()
    durable = DurableBroker(folder, nc.Space(bounds=(13.0, 52.3, 13.8, 52.7)), nc.Window(age=3600))
    listeners: defaultdict[str | int, list[asyncio.Queue[nc.Update]]] = defaultdict(list)
    one_at_a_time = asyncio.Lock()  # the log has the order in which the broker was called

    async def take(event: dict[str, Any]) -> int:
        async with one_at_a_time:
            try:
                updates = await asyncio.to_thread(durable.take, event)  # the event loop goes on meanwhile
            except nc.InvalidInput as error:
                raise HTTPException(422, str(error)) from None
            for update in updates:
                for queue in listeners[update.subscription]:
                    queue.put_nowait(update)
        return len(updates)

    @app.put("/subscriptions/{id}")
    async def subscribe(id: str, query: dict[str, Any]) -> dict[str, int]:
        return {"updates": await take({"event": "subscribe", "subscription": {**query, "id": id}})}

    @app.post("/messages")
    async def publish(message: dict[str, Any]) -> dict[str, int]:
        return {"updates": await take({"event": "publish", "message": message})}

    @app.get("/updates/{id}")
    async def updates(id: str) -> StreamingResponse:
        queue: asyncio.Queue[nc.Update] = asyncio.Queue()
        async with one_at_a_time:  # nothing happens between the result and the first update
            try:
                result = await asyncio.to_thread(durable.broker.results, id)
            except nc.UnknownId as error:
                raise HTTPException(404, str(error)) from None
            listeners[id].append(queue)

        async def lines() -> AsyncIterator[str]:
            try:
                yield f"event: result\ndata: {json.dumps([message for message, _ in result])}\n\n"
                while True:
                    update = await queue.get()
                    yield f"event: update\ndata: {json.dumps([update.sign, update.message])}\n\n"
            finally:
                listeners[id].remove(queue)

        return StreamingResponse(lines(), media_type="text/event-stream")

    return app


def converse(url: str) -> None:
    """What a client sends, and what a listener hears."""
    with httpx.Client(base_url=url, timeout=60) as client, client.stream("GET", "/updates/ann") as heard:
        lines = (line for line in heard.iter_lines() if line)
        print(next(lines), "|", next(lines))
        client.post(
            "/messages", json={"id": "m2", "lon": 13.40, "lat": 52.52, "text": "Ramen!", "ts": 1_777_622_460_000}
        )
        print(next(lines), "|", next(lines))


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="nearcast-"))
    first = DurableBroker(folder, nc.Space(bounds=(13.0, 52.3, 13.8, 52.7)), nc.Window(age=3600))
    ann = {"id": "ann", "kind": "nearest", "lon": 13.4, "lat": 52.52, "keywords": "ramen", "k": 5}
    first.take({"event": "subscribe", "subscription": ann})
    first.snapshot()
    m1 = {"id": "m1", "lon": 13.41, "lat": 52.52, "text": "Ramen here", "ts": 1_777_622_400_000}
    first.take({"event": "publish", "message": m1})
    # The process ends here, without a goodbye; the next one goes on.
    server = uvicorn.Server(uvicorn.Config(make_app(folder), port=0, log_level="warning"))
    serving = threading.Thread(target=server.run)
    serving.start()
    while not server.started:
        serving.join(0.01)
    converse(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}")
    server.should_exit = True
    serving.join()


if __name__ == "__main__":
    main()
else:
    app = make_app(Path(os.environ.get("NEARCAST_FOLDER", ".")))

# Prints:
# event: result | data: ["m1"]
# event: update | data: ["+", "m2"]
