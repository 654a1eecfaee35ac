"""Brute force for every query kind: the reference for all other engines, and fast enough for small sets.

An arriving message is checked against every subscription, one after another; nothing is filed anywhere. What the
other engines save is exactly this work, so the number of subscriptions tried, in `stats()`, is what theirs is
compared with.
"""

from nearcast.engines.oracle.engine import KeptOracle, SimilarOracle, WithinOracle

__all__ = ["KeptOracle", "SimilarOracle", "WithinOracle"]
