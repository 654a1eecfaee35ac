"""In front of a run on Spark: requests become files that the run reads, and what the run has told becomes events.

    PIPELINE/inbox/messages/*.jsonl        messages, and their updates and retractions, in the JSON form
    PIPELINE/inbox/subscriptions/*.jsonl   subscribe, unsubscribe, move
    PIPELINE/out/                          of `nearcast run --events PIPELINE/inbox --follow --out PIPELINE/out`
    PIPELINE/out/epoch                     the name of this history, the same for all servers in front of it

Whoever writes a file renames it when it is whole and synced, and then acknowledges. Files are never changed. A
micro-batch of the run is an event: batch 0 is event 1. Only batches that Spark has committed are read, since others may
come again in another form. So all servers tell the same updates under the same cursors, and a client may resume at any
of them. `spark` is not imported: files are all that is shared.
"""
