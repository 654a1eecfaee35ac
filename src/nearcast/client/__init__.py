"""A client of `nearcast serve`: publish, subscribe, and iterate updates; after a break it resumes by itself.

    with Client("http://127.0.0.1:8787") as client:
        client.subscribe("ann", nc.Nearest(2.35, 48.86, "taxi", k=3))
        client.publish({"id": "m1", "lon": 2.36, "lat": 48.87, "text": "Taxi at the corner"})
        for change in client.updates("ann"):
            print(change.sign, change.message, change.score)

`AsyncClient` is the same with `await` and `async for`. Updates come exactly once and in order: the client remembers the
cursor of the last frame that it handed out, and attaches behind it when the connection breaks. When the server cannot
go on from a cursor (it is too old, or of another history), the client takes the whole result instead and says so with
a `Snapshot`.
"""

from nearcast.client.asynchronous import AsyncClient
from nearcast.client.forms import Change, Ended, ServerError, Snapshot
from nearcast.client.synchronous import Client

__all__ = ["AsyncClient", "Change", "Client", "Ended", "ServerError", "Snapshot"]
