"""The cases of `Similar`: lost answers and wrong scores are found, and points are what their settings say."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from nearcast.cli.bench import part

figure, plot, similar = map(part, ("figure", "plot", "cases.similar"))


def tiny(name: str, series: str, x: object, **changed: object):
    declared = figure.load(name)
    case = declared.make(series, declared.sizes_of(series, x, {**declared.tiny, declared.sweep[0]: x, **changed}), 1)
    case.prepare()
    return case


class Changed:
    """An engine that says something else than it found."""

    def __init__(self, engine, change):
        self.engine, self.change = engine, change

    def __getattr__(self, name):
        return getattr(self.engine, name)

    def publish(self, steps):
        return self.change(self.engine.publish(steps))


def later_half(told):
    return told.take(np.arange(told.slots.size // 2, told.slots.size))


@pytest.mark.parametrize(
    ("change", "reason"),
    [(later_half, "others differ"), (lambda told: told._replace(scores=told.scores * 0.5), "scores differ")],
    ids=["lost", "other scores"],
)
def test_a_wrong_engine_is_found(change, reason):
    case = tiny("stamp_fig_11", "IR-tree", "defaults")
    case.engine = Changed(case.engine, change)
    with pytest.raises(figure.WrongAnswer, match=reason):
        case.check()


def test_a_wrong_engine_in_a_broker_is_found():
    case = tiny("similar_updates", "R^t++", "subscribe")
    case.engine = Changed(case.engine, later_half)
    case.answer_with(case.engine)
    with pytest.raises(figure.WrongAnswer, match="but right are"):
        case.check()


def test_what_is_varied_is_set():
    case = tiny("stamp_fig_11", "R^t++", "delta 0.25, tau 0.5, fanout 7")
    scales = case.table.scales[case.table.used_slots]
    assert set(scales["delta"].tolist()) == {0.25}
    assert set(scales["tau"].tolist()) == {0.5}
    assert case.engine.fanout == 7
    assert similar.with_varied({"varied": "defaults", "tau": 1}) == {"tau": 1}


def test_words_of_messages_are_cut_and_extended():
    messages = pa.table({"text": ["a b c", "b", "c d", ""]})
    assert similar.with_words(messages, 2)["text"].to_pylist() == ["a b", "b c", "c d", "a b"]
    assert similar.with_words(messages, 9)["text"].to_pylist()[1] == "b c d a"


def test_the_rest_of_a_cut_is_there_after_the_first_rows_were_taken():
    tables = [pa.table({"id": [1, 2, 3]}), pa.table({"id": [4, 5]})]
    for n, first, rest in ((2, [1, 2], [3, 4, 5]), (3, [1, 2, 3], [4, 5]), (5, [1, 2, 3, 4, 5], [])):
        taken, later = similar.cut(iter(tables), n)
        assert [key for table in taken for key in table["id"].to_pylist()] == first
        assert [key for table in later for key in table["id"].to_pylist()] == rest


def test_averages_and_work_are_shown_in_the_order_of_the_sweep():
    declared = figure.load("similar_bars")
    lines = [
        {
            "x": x, "series": series, "run": "a", "unit": "messages", "peak_bytes": 0,
            "counters": {"candidates": 6, "answers": 4, "messages": 2},
            "setup": {"wall_s": 0.0, "compile_s": 0.0}, "repeats": [{"n": 1, "cpu_s": cpu_s, "compile_s": 0.0}],
        }
        for x, both in (("delta 0, tau 0.9", (9.0, 1.0)), ("defaults", (3.0, 1.0)))
        for series, cpu_s in zip(("scan", "STAMP"), both, strict=True)
    ]  # fmt: skip
    shown = {rows.title: rows.body for rows in plot.tables(declared, lines)}
    speed = shown[f"{declared.title}: per CPU second"]
    assert [row[0] for row in speed] == ["defaults", "delta 0, tau 0.9", "average"]
    assert speed[-1][2].endswith("x 6")
    assert shown[f"{declared.title}: candidates an answer"][0] == ["defaults", "1.50", "1.50"]
