"""Readers for the real data kept beside the project: a name in, an Arrow table out."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from nearcast.errors import InvalidInput, SetupError
from nearcast.workload.moving import Network

VARIABLE = "NEARCAST_DATA"

MESSAGES = (
    "tweets_2021_2022",
    "poi_simplegeo_us",
    "places_gnis_us",
    "places_geonames_world",
    "wikipedia_titles_es_fr_ja",
    "checkins_gowalla_20news_words",
    "checkins_foursquare_nyc",
    "airbnb_nyc_2019",
    "places_pleiades_ancient",
)
TRAJECTORIES = ("traj_geolife_beijing", "traj_ais_us_2020", "traj_ais_brest", "traj_vehicles_athens")
WORDS = ("words_20newsgroups_bags", "words_20newsgroups_df")
ROADS = ("oldenburg", "sanjoaquin")
NAMES = MESSAGES + TRAJECTORIES + WORDS


def find_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Where the datasets are: the argument, else ``$NEARCAST_DATA``, else ``../shared/data`` beside the checkout.

    Raises
    ------
    SetupError
        When there is no such folder; the message lists the places tried.
    """
    if folder is not None:
        places = [Path(folder)]
    elif os.environ.get(VARIABLE):
        places = [Path(os.environ[VARIABLE])]
    else:
        checkout = Path(__file__).resolve().parents[3]
        places = [base.parent / "shared" / "data" for base in (checkout, Path.cwd())]
    for place in places:
        if place.is_dir():
            return place
    tried = ", ".join(dict.fromkeys(map(str, places)))
    raise SetupError(f"no dataset folder at {tried}; pass folder= or set {VARIABLE}")


def read(name: str, folder: str | os.PathLike[str] | None = None, columns: list[str] | None = None) -> pa.Table:
    """The dataset `name`, a file name without its ending, or a beginning that only one has (``"tweets"``).

    Messages have the columns ``id, lon, lat, text, ts`` and can be published as they are; trajectories have
    ``object_id, t`` and ``lon, lat`` (or ``x, y`` in metres).
    """
    full = _full_name(name)
    if full == "words_20newsgroups_df":
        return pa.csv.read_csv(_file(full + ".csv", folder)).select(columns or ["term", "doc_freq"])
    return pa.parquet.read_table(_file(full + ".parquet", folder), columns=columns)


def read_roads(name: str, folder: str | os.PathLike[str] | None = None) -> Network:
    """The road network ``"oldenburg"`` or ``"sanjoaquin"``."""
    if name not in ROADS:
        raise InvalidInput("name", name, f"must be one of {', '.join(ROADS)}")
    return Network.read(_file(f"road_{name}_nodes.csv", folder), _file(f"road_{name}_edges.csv", folder))


def _full_name(name: str) -> str:
    if name in NAMES:
        return name
    found = [full for full in NAMES if name and full.startswith(name)]
    if len(found) != 1:
        raise InvalidInput("name", name, f"must be, or begin exactly one of: {', '.join(NAMES)}")
    return found[0]


def _file(name: str, folder: str | os.PathLike[str] | None) -> Path:
    path = find_folder(folder) / name
    if not path.is_file():
        raise SetupError(f"the dataset folder has no {name}: {path}")
    return path
