"""The live messages: which of them live, in which order they leave, and how they are found by words and place.

- `window` says how long messages live, and whether one lives as of a sequence and a clock.
- `live` admits a batch: it gives every message its sequence, refuses what is late or a duplicate, and lists all
  arrivals and expiries in order as `Steps`. Engines read nothing else to know what happened.
- `expiries` finds who leaves in which event: by count through a queue, by time through a heap.
- `index` is the package of the message index, by which results are filled again when messages expire, and by which
  new and moved subscriptions find what is live already.
"""
