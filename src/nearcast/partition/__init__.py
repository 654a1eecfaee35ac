"""Which shard gets which subscription: what each costs, and DkM-SKS, KOP, SOP or a hash to split them. No Spark.

A shard is charged for the messages that touch its subscriptions: those that an index by place and words cannot rule
out. How many that are is estimated from a sample of messages.

- `sample` counts over it: messages in a box, with a word, or both.
- `footprint` finds the box and the words by which messages touch a subscription; `radii` how far one looks that wants
  the k nearest or the k best.
- `costs` turns footprints into nanoseconds of CPU per message, by words, by places, or by both.
- `quadtree_sets` cuts subscriptions into sets by space, `dkm` by space and words, and `greedy` assigns them to the
  shard with the least to do.
- `balance` tells, from the work that shards had, which subscriptions should move.
- `partition` puts them together: `fit` makes a `Partition`, which gives new subscriptions their shards.
"""
