"""Many brokers on Spark: files of events go in, folders of updates and rejects come out, each update once.

The way of an event, one module after the other:

`sources`   finds files and reads JSON lines (`decode`), CSV (`csv_rows`) and Parquet (`parquet_rows`); a row that
            cannot be read stays a row, marked as refused.
`streams`   does the same for Redis streams (`redis_streams`, which also passes updates on to one) and Kafka topics
            (`kafka_topics`).
`intake`    puts the events of all new files in one order, splits their texts into words, cuts them into numbered
            batches, and writes these down; if there is much to sort, Spark does it (`staging`).
`log`       makes turns of batches: `nearcast.partition` says which shard a new subscription belongs to, `directory`
            remembers it. `balance` adds turns in which subscriptions change shards.
`stream`    (and `turn_files`) is all that Spark then sees: each turn, sent to every shard, and a report from each.
`turn`      is what a shard does with a turn: find itself in the memory of the worker, or restore itself from a
            snapshot and the turns since; process the batch; write updates and rejects under the names of both.
`shard`     is a broker with one part of the subscriptions. It sees every message.
`progress`  adds the reports up, and sweeps away what no restart can ask for.
`reshard`   makes another number of shards out of those that a checkpoint has.
`pipeline`  puts these together, `settling` checks what is asked for; `session`, `java` and `warm` get Spark and its
            workers ready; `store` knows the names of files and how to write them.

Three things make a run safe to kill at any moment. A turn is written before anyone can take it, and never changes. A
shard is a pure function of its turns, so it may be lost and made again. And a file of output is named by what is in
it, so that writing it twice is writing it once. Spark adds what it is good at: it runs the turns near their shards,
repeats those that fail, and commits their small states together.

Nothing here is imported by `import nearcast`; `pyspark` is imported only when a pipeline starts.
"""
