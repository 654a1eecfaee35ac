"""One process that people publish to and subscribe from over HTTP, WebSocket, SSE and webhooks.

Equal events give equal updates, so only inputs are made durable. A request becomes a `Submission`; the writer, the one
thread that owns the broker, takes all that wait, appends them to the log as frames, and lets the broker match while the
disk syncs. When both are done, the outcome goes to the event loop, in order: message bodies are filed, updates are
cached and pushed, requests are answered. A restart reads the last snapshot and replays the log after it through the
same steps, which gives the same updates under the same cursors.

`durable/` is the log and what is derived from it, `push/` tells people, `access/` says who may do what, `app` has the
routes.
"""
