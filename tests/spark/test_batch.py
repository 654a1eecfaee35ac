"""Answers over batch frames are those of one broker."""

from __future__ import annotations

from typing import Any

import pytest

import nearcast as nc
import nearcast.spark as ns
from spark.scenes import (
    ANALYZER,
    CONTROLS,
    MESSAGES,
    PLACED,
    SPACE,
    WINDOW,
    One,
    assigns_of,
    changes_of,
    controls_of,
    frame,
    inflected,
    messages_of,
    said_by,
)


@pytest.mark.parametrize(("shards", "window"), [(1, WINDOW), (3, WINDOW), (2, None)])
def test_answers_are_those_of_one_broker(spark: Any, shards: int, window: nc.Window | None) -> None:
    messages, controls = messages_of(shards, 400), controls_of(shards, 60, 60_000)
    messages += changes_of(shards, messages) if window is not None else []
    controls += assigns_of(shards, 30, 60_000) if shards > 1 else []
    told, asked = frame(spark, messages, MESSAGES), frame(spark, controls, PLACED)
    answers = ns.answers(told, asked, space=SPACE, window=window, shards=shards)
    expected = One(window).take(messages, controls)
    assert said_by(answers.collect()) == expected
    assert len(expected.refused) > 10
    assert sum(map(len, expected.updates.values())) > 500


def test_an_analyzer_is_that_of_one_broker(spark: Any) -> None:
    messages, controls = inflected(8, messages_of(8, 300)), inflected(9, controls_of(8, 50, 45_000))
    weights = ns.fit_weights(frame(spark, messages, MESSAGES), "text", analyzer=ANALYZER)
    fitted = nc.Weights.fit([row.get("text") for row in messages], ANALYZER)
    assert all(weights.weight(word) == fitted.weight(word) for word in ("ants", "bées", "東京", "fox"))
    told, asked = frame(spark, messages, MESSAGES), frame(spark, controls, CONTROLS)
    answers = ns.answers(told, asked, space=SPACE, window=WINDOW, weights=weights, analyzer=ANALYZER, shards=2)
    expected = One(WINDOW, fitted, ANALYZER).take(messages, controls)
    assert said_by(answers.collect()) == expected
    assert sum(map(len, expected.updates.values())) > 300
    assert expected.updates != One(WINDOW).take(messages, controls).updates
