"""Seeded messages and subscriptions of any size, and readers for stored datasets.

Everything is columnar: a generator yields Arrow tables whose columns are the fields of the JSON form
(`schema.py`), ready for `Broker.publish`, `subscribe_many` and `move_many`.

- `zipf` makes messages from nothing: Zipf words, clustered places, any number of rows.
- `subscriptions` makes the four kinds of question from a table of messages, the way the papers' experiments do.
- `moving` lets subscribers travel a road network and yields their moves.
- `s1m` is one fixed workload by name: a million boxes over clustered places.
- `datasets` reads the real data that is kept beside the project, not in it.
- `city` invents the city of `nearcast demo`: a day of posts and the people who follow them.

Random numbers come from `numpy.random.Generator(PCG64(...))` seeded by the caller. Rows are made in blocks of
`schema.BLOCK`, each with a seed of its own, so that memory stays flat, and the first n rows are the same however many
are asked for. Nothing prints: progress is the caller's business.
"""
