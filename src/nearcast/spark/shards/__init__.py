"""Shards: brokers with a part of the subscriptions each, what reaches them, and the store that they live in."""
