from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from nearcast.errors import InvalidInput
from nearcast.workload import moving, subscriptions, zipf
from nearcast.workload.moving import Network, Traffic


def grid(side: int) -> Network:
    """A town of side x side crossings, one unit apart."""
    x, y = (part.ravel().astype(float) for part in np.meshgrid(np.arange(side), np.arange(side)))
    numbers = np.arange(side * side).reshape(side, side)
    across = np.column_stack((numbers[:, :-1].ravel(), numbers[:, 1:].ravel()))
    along = np.column_stack((numbers[:-1].ravel(), numbers[1:].ravel()))
    return Network.of(x, y, np.concatenate((across, along)))


def test_ways_are_shortest():
    network = grid(5)
    edges, left = network.ways_to(0)
    np.testing.assert_allclose(left, network.x + network.y)
    assert edges[0] == -1
    ahead = network.targets[edges[1:]]
    np.testing.assert_allclose(left[ahead], left[1:] - 1)


def test_the_shorter_of_two_parallel_roads_is_taken():
    ends, lengths = np.array([[0, 1], [0, 1]]), np.array([5.0, 2.0])
    network = Network.of(np.array([0.0, 1.0]), np.array([0.0, 0.0]), ends, lengths)
    edges, left = network.ways_to(1)
    assert left.tolist() == [2.0, 0.0]
    assert network.lengths[edges[0]] == 2.0


def test_a_network_is_read_from_two_files(tmp_path):
    nodes, edges = tmp_path / "nodes.csv", tmp_path / "edges.csv"
    nodes.write_text("node_id,x,y\n7,1.0,0.0\n3,0.0,0.0\n")
    edges.write_text("edge_id,from_node,to_node,length\n0,3,7,1.5\n")
    network = Network.read(nodes, edges)
    assert network.bounds == (0.0, 0.0, 1.0, 0.0)
    assert network.lengths.tolist() == [1.5, 1.5]
    edges.write_text("edge_id,from_node,to_node,length\n0,3,8,1.5\n")
    with pytest.raises(InvalidInput, match="edges must join nodes of the nodes file"):
        Network.read(nodes, edges)


def test_travellers_stay_on_the_roads_and_keep_their_pace():
    network = grid(8)
    traffic = Traffic(network, 400, 1, speed=0.05, n_destinations=5)
    before = np.column_stack(traffic.places())
    moved = np.zeros(400)
    for _ in range(40):
        traffic.step()
        after = np.column_stack(traffic.places())
        assert after.min() >= 0
        assert after.max() <= 7
        # On a grid of unit streets at least one coordinate is a whole number.
        assert np.abs(after - np.round(after)).min(axis=1).max() < 1e-9
        way = np.abs(after - before).sum(axis=1)
        assert way.max() <= 0.05 * 7 * 1.5 + 1e-9
        moved += way
        before = after
    assert 0.4 < moved.mean() / (40 * 0.05 * 7) <= 1.0


def test_places_are_reported_in_the_bounds_asked_for():
    traffic = Traffic(grid(4), 50, 1, bounds=(10.0, -5.0, 20.0, 5.0))
    x, y = traffic.places()
    assert x.min() >= 10
    assert x.max() <= 20
    assert y.min() >= -5
    assert y.max() <= 5


def test_moves_carry_places_or_boxes():
    ids = np.arange(100, 300)
    made = list(moving.moves(Traffic(grid(5), 200, 1), ids, 1, n_steps=4, mobility=0.5, start_ts=1_000, step_ms=10))
    assert [table["ts"][0].as_py() for table in made] == [1_010, 1_020, 1_030, 1_040]
    assert 60 < np.mean([table.num_rows for table in made]) < 140
    assert made[0].column_names == ["id", "lon", "lat", "ts"]
    assert set(made[0]["id"].to_pylist()) <= set(ids.tolist())
    sides = (np.full(200, 2.0), np.full(200, 1.0))
    boxed = next(moving.moves(Traffic(grid(5), 200, 1), ids, 1, mobility=1.0, sides=sides)).to_pylist()
    assert len(boxed) == 200
    assert all(row["max_lon"] - row["min_lon"] == pytest.approx(2) for row in boxed)
    assert all(row["max_lat"] - row["min_lat"] == pytest.approx(1) for row in boxed)


def test_subscriptions_are_put_on_the_roads():
    source = subscriptions.Source.of(pa.concat_tables(zipf.messages(100, 1)))
    boxes = pa.concat_tables(subscriptions.within(source, 60, 1))
    placed, steps = moving.on_roads(boxes, grid(5), 1, bounds=(0.0, 0.0, 1.0, 1.0), n_steps=3)
    assert placed.schema == boxes.schema
    before, after = (table["max_lon"].to_numpy() - table["min_lon"].to_numpy() for table in (boxes, placed))
    np.testing.assert_allclose(before, after)
    assert [table.column_names[1] for table in steps] == ["min_lon"] * 3
    points = pa.concat_tables(subscriptions.topk(source, 60, 1))
    placed, steps = moving.on_roads(points, grid(5), 1, bounds=(0.0, 0.0, 1.0, 1.0), n_steps=2)
    assert [table.column_names[1] for table in steps] == ["lon"] * 2
    with pytest.raises(InvalidInput, match="subscriptions must all have a box, or all a place"):
        moving.on_roads(pa.concat_tables([boxes, points]), grid(5), 1, bounds=(0.0, 0.0, 1.0, 1.0))


def test_the_seed_decides():
    def run(seed):
        return pa.concat_tables(moving.moves(Traffic(grid(5), 30, seed), np.arange(30), seed, n_steps=5))

    assert run(1).equals(run(1))
    assert not run(1).equals(run(2))


def test_impossible_traffic_is_refused():
    with pytest.raises(InvalidInput, match="speed must be > 0"):
        Traffic(grid(3), 5, 1, speed=0.0)
    with pytest.raises(InvalidInput, match="mobility must be from 0 to 1"):
        next(moving.moves(Traffic(grid(3), 5, 1), np.arange(5), 1, mobility=1.5))
    with pytest.raises(InvalidInput, match="ends must be pairs of nodes that exist"):
        Network.of(np.zeros(2), np.zeros(2), np.array([[0, 2]]))
