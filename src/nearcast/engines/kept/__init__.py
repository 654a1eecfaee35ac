"""Results that are kept: what `TopK` and `Nearest` share.

Both answer with the best k live messages of a subscription, and both must go on when one of them leaves. So each
subscription has a *buffer*: its result, and behind it as many spare messages as are worth their upkeep. Most messages
that leave are then replaced from the buffer; only when it runs short is the index of live messages asked again.

| module | what it does |
| --- | --- |
| `layout` | records and counters of buffers |
| `buffers` | kernels: a message enters a buffer, leaves it, and what changed is emitted |
| `watch` | who waits for which message to leave |
| `skyband` | which messages a buffer keeps, and how deep it goes (Skype, section 6) |
| `refill` | short buffers are filled from the index of live messages |
| `compaction` | the pool that all buffers share shrinks again, a little with every call |
| `results` | `Results` owns the arrays, grows them and says what they hold |
| `engine` | `KeptEngine`: the loop over events, which an engine adds its filter to |
"""
