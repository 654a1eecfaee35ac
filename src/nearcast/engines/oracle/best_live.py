"""Finds the best live messages of one `TopK` or `Nearest` subscription, through the message index."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Floats, Ints
from nearcast.columns.subscription_tables import PointTable
from nearcast.engines.contract import EngineContext
from nearcast.engines.exact import ALL_WORDS, TOPK
from nearcast.window.index.query import ALL, ANY, BY_SCORE, Moment, Question


def best_live(
    kind: int, table: PointTable, slot: int, limit: int, context: EngineContext, last: int, clock: int
) -> tuple[Ints, Floats]:
    """The `limit` best live messages of a TopK or Nearest subscription as of (last, clock), with their ranks.

    Ranks are scores before they fade.
    """
    layout = table.layout
    row = layout.rows[slot]
    start, n_terms = int(row["term_start"]), int(row["n_terms"])
    terms = layout.terms[start : start + n_terms]
    live, idf = context.live, context.vocabulary.idf
    if not len(live.table):
        return np.zeros(0, np.int32), np.zeros(0)
    moment = Moment(last, clock, live.limits.newest, int(row["since"]))
    mode = BY_SCORE if kind == TOPK else ALL if row["mode"] == ALL_WORDS else ANY
    wanted = int(row["condition"]), layout.conditions
    half_life = int(table.half_lives_of(np.array([slot], np.int32))[0])
    place, k = (float(row["x"]), float(row["y"])), min(limit, len(live.table))
    question = Question(mode, *place, k, 0.0, 1.0, *wanted, half_life)
    if kind == TOPK:
        scale = layout.scales[slot]
        question = question._replace(alpha=float(scale["alpha"]), norm=float(scale["norm"]))
        weights = layout.counts[start : start + n_terms] * idf[terms]
        return live.index.topk(live.table.layout, idf, question, terms, weights, moment)
    found, distances = live.index.nearest(live.table.layout, idf, question, terms, moment)
    return found, -distances
