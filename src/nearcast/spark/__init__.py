"""Nearcast on Spark: DataFrames of messages and subscriptions in, a DataFrame of answers out.

import nearcast.spark as ns

answers = ns.answers(messages, subscriptions, space=space, window=nc.Window(age=3600), shards=4, store="s3://...")
"""

from nearcast.spark.answers import answers, rejects, updates
from nearcast.spark.frames import ANSWERS, MESSAGES, SUBSCRIPTIONS
from nearcast.spark.match import match
from nearcast.spark.plan import plan
from nearcast.spark.session.configure import configure
from nearcast.spark.shards.repartition import repartition
from nearcast.spark.shards.sweep import sweep
from nearcast.spark.weights import fit_weights

__all__ = [
    "ANSWERS",
    "MESSAGES",
    "SUBSCRIPTIONS",
    "answers",
    "configure",
    "fit_weights",
    "match",
    "plan",
    "rejects",
    "repartition",
    "sweep",
    "updates",
]
