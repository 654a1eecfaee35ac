"""The exact checks against the definitions, which share no code with them."""

from __future__ import annotations

import dataclasses
import math
import os
from typing import Any

import numpy as np
import pytest
from definitions import TOLERANCE
from strategies import Seeded, make_message, make_query, make_setting

from nearcast.columns.scores import gather, scatter
from nearcast.engines.exact import NEAREST, NO_MATCH, TOPK, rank, similarity, within_matches
from nearcast.errors import InvalidInput
from nearcast.model.query import Nearest, Similar, Within

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
N_SEEDS = 150 if COMPILED else 30


def checked(broker: Any, kind: int, number: int, slot: int) -> Any:
    """What the check of a query kind says of one subscription and one stored message."""
    context, table = broker.parts.context, broker.parts.tables[kind]
    stored, idf = context.live.table.layout, context.vocabulary.idf
    where = context.space.kernel_input
    dense = np.zeros(idf.size)
    if kind == 0:
        stored, (slot,) = context.live.table.with_patterns(np.array([slot], np.int32))
    row = stored.rows[slot]
    scatter(stored.terms, stored.counts, row["term_start"], row["n_terms"], idf, dense)
    if kind == 0:
        said: Any = bool(within_matches(table.layout, number, row, where, dense))
    elif kind == 1:
        said = float(similarity(table.layout, number, row, where, idf, dense))
    else:
        said = float(rank(TOPK if kind == 2 else NEAREST, table.layout, number, row, where, idf, dense))
    gather(stored.terms, row["term_start"], row["n_terms"], dense)
    assert not dense.any()
    return said


def test_checks_agree_with_the_definitions() -> None:
    n_checked = 0
    for seed in range(N_SEEDS):
        source = Seeded(seed)
        setting = make_setting(source)
        if setting.lifetime is None:
            continue
        judge, broker = setting.judge(), setting.broker()
        query = dataclasses.replace(make_query(source, setting.ground), where=None)  # checks do not ask for fields
        try:
            broker.subscribe("q", query)
        except InvalidInput:
            continue
        judge.subscribe("q", query)
        kind, slot = broker.parts.registry.where(broker.parts.registry.find("q"))
        for n in range(6):
            message = make_message(source, setting.ground, n, 0)
            try:
                broker.publish(message)
            except InvalidInput:
                continue
            judge.publish(message)
            stored = broker.parts.context.live.table.ids.find(n)
            if stored < 0:
                continue
            said = checked(broker, kind, slot, stored)
            entry = next((e for e in judge.standing["q"].entries.values() if e.message == n), None)
            n_checked += 1
            if isinstance(query, Within):
                assert said == (entry is not None), (query, message)
            elif isinstance(query, Similar):
                if entry is not None:
                    assert said == pytest.approx(entry.score, rel=TOLERANCE, abs=0)
                else:
                    assert said <= query.tau * (1 + TOLERANCE) + 1e-300
            elif entry is None:
                assert said == NO_MATCH == -math.inf
            else:
                score = -said if isinstance(query, Nearest) else said
                assert score == pytest.approx(entry.score, rel=TOLERANCE, abs=0)
    assert n_checked > N_SEEDS
