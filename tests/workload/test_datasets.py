from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from nearcast.errors import InvalidInput, SetupError
from nearcast.workload import datasets


@pytest.fixture
def stored() -> Path:
    try:
        return datasets.find_folder()
    except SetupError as error:
        pytest.skip(str(error))


def test_the_argument_comes_before_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv(datasets.VARIABLE, str(tmp_path / "absent"))
    assert datasets.find_folder(tmp_path) == tmp_path
    with pytest.raises(SetupError, match=r"no dataset folder at .*absent; pass folder= or set NEARCAST_DATA"):
        datasets.find_folder()
    monkeypatch.setenv(datasets.VARIABLE, str(tmp_path))
    assert datasets.find_folder() == tmp_path


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SetupError, match=r"the dataset folder has no tweets_2021_2022.parquet"):
        datasets.read("tweets", tmp_path)


@pytest.mark.parametrize("name", ["", "places", "nothing_like_it"])
def test_an_unclear_name_is_refused(name):
    with pytest.raises(InvalidInput, match="name must be, or begin exactly one of: tweets_2021_2022"):
        datasets.read(name)


def test_a_file_is_found_by_the_beginning_of_its_name(tmp_path):
    table = pa.table({"id": [1], "lon": [2.0], "lat": [3.0], "text": ["a"], "ts": [4]})
    pa.parquet.write_table(table, tmp_path / "airbnb_nyc_2019.parquet")
    assert datasets.read("airbnb", tmp_path).equals(table)
    assert datasets.read("airbnb", tmp_path, ["text"]).column_names == ["text"]


@pytest.mark.parametrize("name", datasets.MESSAGES)
def test_messages_can_be_published_as_they_are(stored, name):
    schema = pa.parquet.read_schema(stored / f"{name}.parquet")
    expected = {"id": "int64", "lon": "double", "lat": "double", "text": "string", "ts": "int64"}
    assert {field.name: str(field.type) for field in schema} == expected


def test_every_other_dataset_opens(stored):
    for name in datasets.TRAJECTORIES:
        assert set(datasets.read(name, stored, ["object_id", "t"]).column_names) == {"object_id", "t"}
    assert datasets.read("words_20newsgroups_df", stored).column_names == ["term", "doc_freq"]
    assert datasets.read("words_20newsgroups_bags", stored).num_rows == 18_492


def test_roads_are_connected(stored):
    network = datasets.read_roads("oldenburg", stored)
    assert network.x.size == 6_105
    assert network.ways_to(0)[1].max() < float("inf")
    with pytest.raises(InvalidInput, match="name must be one of oldenburg, sanjoaquin, got 'paris'"):
        datasets.read_roads("paris", stored)
