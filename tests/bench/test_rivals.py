"""The indexes that the benchmark compares with answer like the brute force: a comparison with a wrong one is none."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from compare import identical
from contract import test_contract as contract
from contract.contenders import Contender, Judge, Town, broker_class, engine_of, made, stream

import nearcast as nc
from nearcast.cli.bench import part
from nearcast.engines.contract import Changes

RIVALS = [Contender("within", rival.name, rival) for rival in part("rivals.all").RIVALS]

every_rival = pytest.mark.parametrize("rival", RIVALS, ids=repr)


@every_rival
def test_updates_are_those_of_the_brute_force(rival: Contender) -> None:
    """Boxes, circles and polygons, expressions, moves, expiries, both metrics, with and without a window."""
    contract.follow_streams(rival, 6, 80)


@every_rival
def test_a_town(rival: Contender) -> None:
    """Enough subscriptions for grids and trees, filed at once and one by one; then some leave."""
    town = Town(3)
    queries = [(n, town.query("within")) for n in range(1500)]
    messages, asked = list(town.messages(300)), list(town.messages(30, 300))
    said, heard = [], []
    for kind in (broker_class(rival), Judge):
        broker = kind(town.space, nc.Window(count=100))
        updates = list(broker.publish(messages[:100]))
        updates += broker.subscribe_many(queries[:1000])
        updates += broker.publish(messages[100:200])
        updates += broker.subscribe_many(queries[1000:])
        broker.unsubscribe_many(range(0, 1500, 3))
        updates += broker.publish(messages[200:])
        heard.append([broker.match(message) for message in asked])
        broker.check()
        said.append(updates)
        if kind is not Judge:
            work = engine_of(broker, rival).stats()
            assert 0 < work["matched"] <= work["verified"] <= work["touched"]
            assert work["bytes"] > 0
    assert len(said[0]) > 1000
    identical(*said)
    assert heard[0] == heard[1]
    assert any(heard[0])


@every_rival
@pytest.mark.parametrize("window", [nc.Window(count=100), None], ids=repr)
def test_moves(rival: Contender, window: nc.Window | None) -> None:
    contract.test_many_at_once_fill_and_move_like_one_by_one(rival, window)


@pytest.mark.parametrize("name", ["iq_tree", "ap_tree", "fast", "boxed", "keyword", "regions", "space"])
def test_filters_of_nearest(name: str) -> None:
    """Indexes in the place of our own, with balls that close, shrink, grow and move."""
    rival = Contender("nearest", name, part("cases.nearest").engine_class(name))
    town = Town(4)
    queries = [(n, town.query("nearest")) for n in range(120)]
    messages, asked = list(town.messages(400)), list(town.messages(30, 400))
    said, heard = [], []
    for kind in (broker_class(rival), Judge):
        broker = kind(town.space, nc.Window(count=150))
        updates = list(broker.publish(messages[:50]))
        updates += broker.subscribe_many(queries[:80])
        updates += broker.publish(messages[50:200])
        updates += broker.subscribe_many(queries[80:])
        broker.unsubscribe_many(range(0, 120, 5))
        updates += broker.move_many([{"id": n, "lon": n % 16, "lat": 3} for n in range(1, 120, 10)])
        updates += broker.publish(messages[200:])
        updates += broker.retract(390)
        heard.append([broker.match(message) for message in asked])
        broker.check()
        said.append(updates)
    assert len(said[0]) > 1000
    identical(*said)
    assert heard[0] == heard[1]
    assert any(heard[0])


def small_case(name: str, series: str, x: object) -> Any:
    """A series of a figure in miniature, prepared."""
    figure = part("figure").load(name)
    tiny = {key: value for key, value in figure.tiny.items() if key != figure.sweep[0]}
    case = figure.make(series, figure.sizes_of(series, x, tiny), figure.seed)
    case.prepare()
    return case


@pytest.mark.parametrize(
    ("name", "series", "x"), [("ap_tree_fig_12a", "RQ-Tree", "zipf"), ("ap_tree_fig_21b", "RQ+-Tree", "zipf on ")]
)
def test_cases_find_lost_matches(name: str, series: str, x: object) -> None:
    case = small_case(name, series, x)
    assert case.check() > 0
    publish = case.engine.publish
    case.sizes["checked"] = 500
    case.engine.publish = lambda steps: Changes(*(column[1:] for column in publish(steps)))
    with pytest.raises(part("figure").WrongAnswer, match="and 0 others differ"):
        case.check()


def test_cases_find_lost_changes_of_moves() -> None:
    case = small_case("ap_tree_fig_21b", "SS-Index", "zipf on ")
    move = case.engine.move
    case.sizes["checked"] = 1000
    case.engine.move = lambda slots, before: Changes(*(column[1:] for column in move(slots, before)))
    with pytest.raises(part("figure").WrongAnswer, match="and 0 others differ"):
        case.check()


@pytest.mark.parametrize(("module", "engine"), [("ciq", "CIQ"), ("one_quadtree", "OneQuadtree")])
def test_rivals_of_topk_answer_like_the_brute_force(module: str, engine: str) -> None:
    """Subscriptions come, go and move, messages expire, on both metrics."""
    follow_topk(Contender("topk", module, getattr(part(f"rivals.{module}"), engine)))


def test_one_quadtree_of_many_cells_answers_like_the_brute_force() -> None:
    small = partial(part("rivals.one_quadtree").OneQuadtree, settings=nc.SkypeSettings(cell=2, groups=2))
    follow_topk(Contender("topk", "one_quadtree of many cells", small))


def follow_topk(rival: Contender) -> None:
    for seed in range(4):
        setting, events = stream(seed, rival, 60)
        ours, judge = made(broker_class(rival), setting), made(Judge, setting)
        for event in events:
            (updates, refused), (expected, also_refused) = contract.told(ours, event), contract.told(judge, event)
            assert refused == also_refused, f"seed {seed}, {event}"
            identical(updates, expected)
