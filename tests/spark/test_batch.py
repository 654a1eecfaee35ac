"""Answers over batch frames are those of one broker."""

from __future__ import annotations

from typing import Any

import pytest

import nearcast as nc
import nearcast.spark as ns
from spark.scenes import (
    MESSAGES,
    PLACED,
    SPACE,
    WINDOW,
    One,
    assigns_of,
    changes_of,
    controls_of,
    frame,
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
