"""Costs against their definition: every message of the sample tried against every subscription."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nearcast as nc
from nearcast.model.codec import subscription_from_json
from nearcast.partition.costs import CHECKS, LOOKS, UNITS, keyword_costs, own_costs, space_costs, weigh_in_box
from nearcast.partition.dkm import set_costs
from nearcast.partition.footprint import COST_KINDS, Footprints, find_footprints
from nearcast.partition.sample import SAMPLE_ROWS, Rectangle, Sample
from nearcast.space.distance import HAVERSINE, distance, ssim, wrap
from nearcast.space.regions import circle_box
from nearcast.text.similarity import MEASURES, tsim

WORDS = ("ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen")
SPACES = (
    nc.Space((0, 0, 8, 8), metric="euclidean"),
    nc.Space((170, -10, 178, 10), "haversine"),
    nc.Space((-4, 50, 4, 58), "haversine"),
)


def town(space: nc.Space, n_messages: int, n: int, seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Messages, and subscriptions of all kinds, in the JSON form."""
    rng = np.random.default_rng(seed)
    x0, y0, x1, y1 = space.bounds

    def place() -> dict[str, float]:
        return {"lon": float(rng.uniform(x0, x1 + 4)), "lat": float(rng.uniform(y0, y1))}

    def words(most: int) -> list[str]:
        return rng.choice(WORDS, int(rng.integers(1, most)), replace=False, p=np.arange(8, 0, -1) / 36).tolist()

    messages = [{"id": i, **place(), "keywords": words(6)} for i in range(n_messages)]
    asked: list[dict[str, Any]] = []
    for i in range(n):
        kind, at, said = ("within", "similar", "topk", "nearest", "nearest")[i % 5], place(), [*words(4), f"new{i}"]
        said = said if rng.random() < 0.3 else said[:-1]
        if kind == "within":
            clauses = " OR ".join(f"({' AND '.join(words(4))} AND NOT zebu)" for _ in range(3))
            box = [at["lon"], at["lat"], at["lon"] + 2, at["lat"] + 0.5 * (y1 - at["lat"])]
            circle = {"type": "Circle", "coordinates": [at["lon"], at["lat"]], "radius": space.max_distance / 9}
            asked.append({"kind": kind, "region": box if i % 2 else circle, "keywords": clauses})
        else:
            own: dict[str, Any] = {"k": int(rng.integers(1, 6))}
            if kind == "similar":
                own = {"delta": float(rng.choice([0, 0.2, 0.5, 0.8, 1])), "tau": float(rng.choice([0, 0.3, 0.6, 1]))}
                own["measure"] = str(rng.choice(list(MEASURES)))
            elif kind == "topk":
                own["alpha"] = float(rng.choice([0, 0.5, 0.9, 1]))
            else:
                own["match"] = "all" if i % 2 else "any"
            asked.append({"kind": kind, **at, **own, "keywords": said})
    return messages, [{"id": i, **query} for i, query in enumerate(asked)]


def columnar(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as a table; regions and lists of words as JSON and strings where they differ in type."""
    names = {name: None for row in rows for name in row}
    columns = {name: [row.get(name) for row in rows] for name in names}
    if "region" in columns:
        columns["region"] = [None if region is None else json.dumps(region) for region in columns["region"]]
        words = columns["keywords"]
        columns["keywords"] = [word if isinstance(word, str) else " ".join(word) for word in words]
    return pa.table(columns)


def in_box(space: nc.Space, box: np.ndarray, message: dict[str, Any]) -> bool:
    x = wrap(message["lon"]) if space.metric_code == HAVERSINE else message["lon"]
    return bool(box[0] <= x <= box[2] and box[1] <= message["lat"] <= box[3])


def defined(space: nc.Space, messages: list[dict[str, Any]], row: dict[str, Any]) -> tuple[Any, set[str], float]:
    """Box, words and share of messages by place alone, straight from what the kinds mean."""
    held = {word: sum(word in message["keywords"] for message in messages) for word in WORDS}
    query: Any = subscription_from_json(row).query
    if row["kind"] == "within":
        rarest = {min(held.get(word, 0) for word in clause.positive) for clause in query.clauses}
        region = row["region"]
        if isinstance(region, dict):
            region = circle_box(space.metric_code, *region["coordinates"], region["radius"])
        return region, {str(number) for number in rarest}, 0.0
    away = [distance(space.metric_code, row["lon"], row["lat"], m["lon"], m["lat"]) for m in messages]
    shared = [set(row["keywords"]) & set(m["keywords"]) for m in messages]
    if row["kind"] == "nearest":
        asked = set(row["keywords"])
        fits = [d for d, both in zip(away, shared, strict=True) if (both == asked if row["match"] == "all" else both)]
        radius = sorted(fits)[row["k"] - 1] if len(fits) >= row["k"] else math.inf
        words = asked if row["match"] == "any" else {str(min(held.get(word, 0) for word in asked))}
        return context(space, row, radius), words, 0.0
    if row["kind"] == "topk":
        scores = sorted(
            (row["alpha"] * ssim(d, space.max_distance)
             + (1 - row["alpha"]) * len(both) / math.sqrt(len(row["keywords"]) * len(m["keywords"]))
             for d, both, m in zip(away, shared, messages, strict=True) if both), reverse=True)  # fmt: skip
        reach = math.inf
        if len(scores) >= row["k"] and row["alpha"] > 0:
            needed = (scores[row["k"] - 1] - (1 - row["alpha"])) / row["alpha"]
            reach = space.max_distance * (1 - needed) if needed > 0 else math.inf
        return context(space, row, reach), set(row["keywords"]), 0.0
    delta, tau = row["delta"], row["tau"]

    def enough(d: float, text: float) -> bool:
        return delta * text + (1 - delta) * ssim(d, space.max_distance) >= tau - 1e-9

    steps = np.linspace(0, space.max_distance, 2001)
    reached = [d for d in steps if enough(d, 1.0)]
    alone = [d for d in steps if enough(d, 0.0)]
    radius, near = (math.inf if len(found) == 2001 else max(found, default=-1.0) for found in (reached, alone))
    box = context(space, row, near) if near >= 0 else None
    share = 0.0 if box is None else (1 + sum(in_box(space, np.array(box), m) for m in messages)) / (1 + len(messages))
    return context(space, row, radius), set(row["keywords"]), share


def context(space: nc.Space, row: dict[str, Any], radius: float) -> tuple[float, ...]:
    if math.isinf(radius):
        return -math.inf, -math.inf, math.inf, math.inf
    return circle_box(space.metric_code, row["lon"], row["lat"], max(radius, 0.0))


def words_of(found: Footprints, sample: Sample, i: int) -> set[str]:
    terms = found.words[found.word_start[i] : found.word_start[i + 1]]
    return {sample.vocabulary.word(int(term)) if term < sample.n_terms else "?" for term in terms}


@pytest.mark.parametrize("space", SPACES, ids=("plain", "date line", "earth"))
def test_boxes_and_words_are_those_of_the_definition(space: nc.Space) -> None:
    messages, asked = town(space, 60, 120, 5)
    sample = Sample(space, columnar(messages))
    found = find_footprints(columnar(asked), sample)
    assert sorted(found.rows.tolist()) == list(range(len(asked)))
    assert set(found.kinds.tolist()) == set(range(len(COST_KINDS)))
    held = {word: sum(word in message["keywords"] for message in messages) for word in WORDS}
    for i, row in enumerate(found.rows.tolist()):
        box, words, alone = defined(space, messages, asked[row])
        told = words_of(found, sample, i)
        slack = space.max_distance / 1900 / (1 if space.metric_code != HAVERSINE else 50_000)
        slack = slack if asked[row]["kind"] == "similar" else 1e-6
        assert np.allclose(found.boxes[i], box, atol=slack), asked[row]
        if asked[row]["kind"] == "similar":
            assert found.alone[i] == pytest.approx(alone, abs=2.5 / 61)
            assert told <= {word if held.get(word) else "?" for word in words}
            no_prefix = [m for m in messages if not told & set(m["keywords"])]
            assert not [m for m in no_prefix if matches_by_text(space, asked[row], m)]
        elif asked[row]["kind"] == "within" or asked[row].get("match") == "all":  # of equally rare words, any
            assert {str(held.get(word, 0)) for word in told} == words
        else:
            assert told == {word if held.get(word) else "?" for word in words}


def matches_by_text(space: nc.Space, row: dict[str, Any], message: dict[str, Any]) -> bool:
    """Does a message match that would not match by its place alone?"""
    near = ssim(distance(space.metric_code, row["lon"], row["lat"], message["lon"], message["lat"]), space.max_distance)
    asked, said = set(row["keywords"]), set(message["keywords"])
    n = len(asked & said)
    text = tsim(MEASURES[row["measure"]], float(n), n, float(len(asked)), float(len(said)), len(asked), len(said))
    by_place = (1 - row["delta"]) * near
    return row["delta"] * text + by_place >= row["tau"] + 1e-9 and by_place < row["tau"] - 1e-9


@pytest.mark.parametrize("space", SPACES, ids=("plain", "date line", "earth"))
def test_costs_are_sums_of_shares(space: nc.Space) -> None:
    messages, asked = town(space, 60, 60, 6)
    sample = Sample(space, columnar(messages))
    found = find_footprints(columnar(asked), sample)
    boxes = [found.boxes[i] for i in range(len(asked))]

    def share(word: str | None, box: np.ndarray | None) -> float:
        fits = [
            m for m in messages if (word is None or word in m["keywords"]) and (box is None or in_box(space, box, m))
        ]
        return (1 + len(fits)) / (1 + len(messages))

    by_words, by_place, by_both = keyword_costs(found, sample), space_costs(found, sample), own_costs(found, sample, 1)
    some = np.array([0.3, 0.4, 0.6, 0.7]) * (np.tile(np.subtract(*[space.bounds[i : i + 2] for i in (2, 0)]), 2))
    some = some + np.tile(space.bounds[:2], 2)
    in_some = np.zeros(len(asked))
    counts = np.zeros(sample.n_terms + 1, np.int64)
    total = weigh_in_box(found, np.arange(len(asked)), sample.layout, Rectangle(*some.tolist()), counts, UNITS, in_some)
    assert not counts.any()
    assert total == pytest.approx(in_some.sum())
    for i, box in enumerate(boxes):
        kind, words, alone = found.kinds[i], words_of(found, sample, i), found.alone[i]
        terms = found.words[found.word_start[i] : found.word_start[i + 1]]
        assert len(terms) >= len(words)  # words that the sample lacks are all one
        unseen = (len(terms) - len(words)) / (1 + len(messages))
        assert by_words[i] == pytest.approx(UNITS[kind] * (sum(share(w, None) for w in words) + unseen + (alone > 0)))
        assert by_place[i] == pytest.approx(UNITS[kind] * share(None, box))
        assert in_some[i] == pytest.approx(UNITS[kind] * (sum(share(w, some) for w in words) + unseen + alone))
        low = LOOKS[1, kind] * (sum(share(w, box) for w in words) + unseen + alone)
        high = LOOKS[1, kind] * (sum(share(w, None) for w in words) + unseen + alone)
        checked = CHECKS[1, kind] * (sum(share(w, box) for w in words) + unseen + alone)
        assert low - 1e-9 <= by_both[i] - checked <= high + 1e-9


def test_new_subscriptions_are_charged_as_members_of_the_set_they_overlap_most() -> None:
    space = SPACES[0]
    messages, asked = town(space, 60, 60, 7)
    sample = Sample(space, columnar(messages))
    found = find_footprints(columnar(asked), sample)
    sets = np.array([[0, 0, 4, 8], [4, 0, 8, 8], [4, 0, 6, 8], [-np.inf, -np.inf, np.inf, np.inf]], np.float64)
    levels = np.array([1, 1, 1, 0], np.int32)
    costs = set_costs(found, sample, sets, levels)
    for i, level in enumerate(found.levels):
        box = found.boxes[i]
        sides = np.minimum(box[2:], sets[:3, 2:]) - np.maximum(box[:2], sets[:3, :2])
        overlaps = np.round(np.prod(np.maximum(sides, 0.0), axis=1), 6)
        best = max(range(3), key=lambda j: (overlaps[j], -np.prod(sets[j, 2:] - sets[j, :2])))
        chosen = sets[3] if level == 0 else sets[best] if level == 1 and overlaps[best] > 0 else box
        expected = np.zeros(len(asked))
        counts = np.zeros(sample.n_terms + 1, np.int64)
        weigh_in_box(found, np.array([i]), sample.layout, Rectangle(*chosen.tolist()), counts, UNITS, expected)
        assert costs[i] == pytest.approx(expected[i])


def test_a_sample_is_bounded_and_spread_over_what_is_given() -> None:
    n = SAMPLE_ROWS * 2 + 1
    given = pa.table({"lon": np.linspace(0, 8, n), "lat": np.zeros(n), "keywords": pa.array([["ant"]] * n)})
    sample = Sample(SPACES[0], given)
    assert sample.n == SAMPLE_ROWS
    assert sample.holding.tolist() == [SAMPLE_ROWS]
    assert np.diff(np.sort(sample.layout.xs)).max() < 8 * 3 / n


def test_malformed_messages_are_passed_over() -> None:
    given = pa.table({"lon": [1.0, math.nan, 2.0], "lat": [1.0, 1.0, 2.0], "text": ["Ant ant", "bee", "cat"]})
    sample = Sample(SPACES[0], given)
    assert (sample.n, sample.n_terms) == (2, 2)
