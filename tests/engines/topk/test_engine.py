"""Skype's index: bounds that no subscription breaks, cuts, settings, and streams at the edges of what it is for."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest
from compare import identical
from contract.contenders import Contender, Judge, Town, broker_class, engine_of

import nearcast as nc
from nearcast.engines.topk import SkypeSettings, TopKSkype
from nearcast.engines.topk.build import cut_cells, cut_groups
from nearcast.engines.topk.keys import key_of, rounded_down, tilt_of
from nearcast.engines.topk.layout import CODE_BITS, Shape
from nearcast.errors import InvalidInput
from nearcast.model.event import Move
from nearcast.model.kinds import Kind

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
TOPK = Kind.TOPK


def shape(cell: int, groups: int) -> Shape:
    return Shape(cell, groups, True, 0, 0.0, 0.0, 1.0, 1.0)


def test_cells_are_squares_that_share_out_the_curve() -> None:
    rng = np.random.default_rng(1)
    spots = rng.integers(0, 1 << (CODE_BITS), 7)
    codes = np.sort(np.concatenate([rng.integers(0, 1 << (CODE_BITS), 300), np.repeat(spots, 20)]))
    starts, firsts = np.zeros(codes.size, np.int64), np.zeros(codes.size, np.int64)
    n = cut_cells(codes, shape(16, 1), starts, firsts)
    starts, firsts = starts[:n], firsts[:n]
    assert starts[0] == firsts[0] == 0
    assert (np.diff(starts) > 0).all()
    assert (np.diff(firsts) > 0).all()
    assert (
        np.searchsorted(firsts, codes, side="right") - 1
        == np.searchsorted(starts, np.arange(codes.size), side="right") - 1
    ).all()
    for low, high in zip(starts, [*starts[1:], codes.size], strict=True):
        assert high - low <= 16 or codes[low] == codes[high - 1], "too many, and not of one code"


@pytest.mark.parametrize(
    ("alphas", "n_groups"), [([0.5] * 40, 1), (list(np.linspace(0, 1, 40)), 4), ([0.0] * 25 + [1.0] * 15, 2)]
)
def test_groups_are_quantiles_of_alpha(alphas: list[float], n_groups: int) -> None:
    lows = np.zeros(10)
    n = cut_groups(np.array(alphas), shape(40, 4), lows)
    assert n == n_groups
    assert lows[0] == -1.0
    assert (np.diff(lows[:n]) > 0).all()


@pytest.mark.parametrize("alpha", [0.0, 1e-9, 0.25, 0.5, 0.999, 1.0 - 1e-10, 1.0])
def test_keys_never_exclude_what_reaches_the_floor(alpha: float) -> None:
    """With a key and a tilt as filed, a message whose score reaches the floor is never skipped."""
    choice = random.Random(int(alpha * 1000))
    for _ in range(500):
        reach, text, near = (choice.choice([1.0, 0.5, choice.random() + 1e-6]) for _ in range(3))
        text, near = min(text, 1.0) * reach, min(near, 1.0)
        score = alpha * near + (1.0 - alpha) * text
        floor = choice.choice([score, score - 1e-9, score / 2])
        key, tilt = float(key_of(floor, alpha, reach)), float(tilt_of(alpha))
        assert key + tilt * max(0.0, 1.0 - near - 1e-12) <= text / reach + 1e-12
        assert rounded_down(score) <= score
    assert key_of(-np.inf, alpha, 0.5) == -np.inf


def contest(settings: SkypeSettings, town: Town, window: nc.Window, queries: list[Any], steps: list[Any]) -> TopKSkype:
    """Play the same events to an engine of these settings and to the brute force; the updates are the same."""
    contender = Contender("topk", "skype", settings)
    ours, judge = (kind(town.space, window) for kind in (broker_class(contender), Judge))
    for broker in (ours, judge):
        broker.publish(list(Town(99).messages(60 if COMPILED else 15)))
    identical(ours.subscribe_many(queries), judge.subscribe_many(queries))
    for method, given in steps:
        identical(getattr(ours, method)(given), getattr(judge, method)(given))
        ours.check()
    return engine_of(ours, contender)


@pytest.mark.parametrize(
    "settings",
    [
        SkypeSettings(cell=10, groups=2, strategy="kmax", share=3.0),
        SkypeSettings(strategy="ratio", share=0.9),
        SkypeSettings(cell=8, groups=3, prune_groups=False),
    ],
    ids=["kmax", "ratio", "individual"],
)
def test_rivals_of_the_paper_answer_alike(settings: SkypeSettings) -> None:
    """The other strategies and prunings; alphas at their ends, many words, repeated words, moves and new weights."""
    n, n_messages = (150, 400) if COMPILED else (10, 40)
    town = Town(21)
    queries = []
    for i in range(n):
        words = town.some_words(12) + town.some_words(3)
        k, alpha = (
            town.random.choice([1, 3, 10, 400]),
            town.random.choice([0.0, 1.0, 1.0 - 1e-12, town.random.random()]),
        )
        queries.append((i, nc.TopK(*town.place(), words, k, alpha)))
    messages = list(town.messages(n_messages, 1000))
    moves = [Move(i, *town.place()) for i in range(0, n, 2)]
    half = n_messages // 2
    steps = [("publish", messages[:half]), ("move_many", moves)]
    steps += [("reweigh", nc.Weights.fit([" ".join(town.some_words(5)) for _ in range(20)]))]
    steps += [("publish", messages[half:]), ("unsubscribe_many", range(0, n, 3)), ("advance", 10**9)]
    engine = contest(settings, town, nc.Window(count=120, age=3), queries, steps)
    stats = engine.stats()
    assert stats["verified"] <= stats["candidates"] <= stats["visited"]
    assert stats["refills"] > n
    if not settings.prune_groups:
        assert stats["groups skipped"] == stats["cells skipped"] == 0


def test_groups_save_most_visits() -> None:
    """Whole cells and groups are skipped, and the answers stay the same."""
    n = 400 if COMPILED else 24
    visited = []
    for prune in (True, False):
        town = Town(5)
        queries = [(i, town.query("topk")) for i in range(n)]
        steps = [("publish", list(town.messages(3 * n // 2, 100)))]
        engine = contest(
            SkypeSettings(cell=20, groups=4, prune_groups=prune), town, nc.Window(count=100), queries, steps
        )
        visited.append(engine.stats()["visited"])
    assert visited[0] < visited[1] or (not COMPILED and visited[0] == visited[1])


def test_everyone_in_one_place_with_one_word() -> None:
    """One place that is cut into cells, groups of one alpha, equal scores everywhere."""
    n = 120 if COMPILED else 20
    town = Town(7)
    queries = [(i, nc.TopK(4, 4, "word0", k=2, alpha=0.5)) for i in range(n)]
    messages = [nc.Message(i, 4, 4 + i % 3, None, ["word0"], i) for i in range(100, 160 if COMPILED else 115)]
    steps = [("publish", messages), ("move_many", [Move(i, 4, 5) for i in range(0, n, 2)])]
    steps += [("unsubscribe_many", range(0, n, 3)), ("publish", [nc.Message(1000, 4, 4, "word0")])]
    contest(SkypeSettings(cell=4, groups=2), town, nc.Window(count=10), queries, steps)


@pytest.mark.parametrize("n_elsewhere", [0, 1000 if COMPILED else 100])
def test_no_group_grows_without_end(n_elsewhere: int) -> None:
    """Once subscriptions that are all alike were one group, in which each is searched one by one.

    Also where the word has so many others that it is not cut anew as a whole.
    """
    n = 900 if COMPILED else 90
    settings = SkypeSettings(cell=10, groups=2)
    contender = Contender("topk", "skype", settings)
    broker = broker_class(contender)(Town(3).space, nc.Window(count=10))
    index = engine_of(broker, contender).index
    town = Town(31)
    broker.subscribe_many([(-1 - i, nc.TopK(*town.place(), "word0 word1", 2)) for i in range(n_elsewhere)])
    broker.subscribe_many([(i, nc.TopK(4, 4, "word0 word1", 2)) for i in range(n)])
    broker.check()
    assert index.layout.groups["n"].max() <= 4 * settings.cell
    broker.publish([nc.Message(i, 4, 4, "word0") for i in range(3)])
    broker.move_many([Move(i, 5, 5) for i in range(n)])
    broker.check()
    assert index.layout.groups["n"].max() <= 4 * settings.cell
    broker.unsubscribe_many(range(0, n, 2))
    broker.check()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"cell": 0}, "cell must be >= 1, got 0"),
        ({"groups": 0}, "groups must be >= 1, got 0"),
        ({"strategy": "best"}, "strategy must be one of cost, kmax, ratio, got 'best'"),
        ({"strategy": "kmax", "share": 0.5}, "share must be >= 1 for kmax, got 0.5"),
        ({"strategy": "ratio", "share": 1.5}, r"share must be within \[0, 1\] for a ratio, got 1.5"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        SkypeSettings(**given)
