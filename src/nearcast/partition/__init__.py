"""Which shard gets which subscription: what each costs, and DkM-SKS, KOP, SOP or a hash to split them. No Spark.

`sample` counts over a sample of messages, `footprint` and `radii` say by which messages a subscription is touched,
`costs` what it then costs; `quadtree_sets`, `dkm` and `greedy` do the splitting; `partition` puts them together: `fit`
makes a `Partition`, which gives new subscriptions their shards.
"""
