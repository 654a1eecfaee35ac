"""Where Spark lives, and which Python files its processes use."""

from __future__ import annotations

import os
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from nearcast.spark.session.session import make_home


def test_the_home_is_the_installed_one_without_its_python_files(tmp_path: Path) -> None:
    home = tmp_path / "home"
    make_home(home)
    (home / "work").mkdir()
    make_home(home)
    assert (home / "bin" / "spark-submit").is_file()
    assert any((home / "jars").glob("spark-core*.jar"))
    assert not (home / "python").exists()
    assert not (home / "work").exists()


@pytest.mark.skipif("SPARK_HOME" in os.environ, reason="SPARK_HOME names another Spark")
def test_workers_import_installed_files_and_no_archive(spark: SparkSession) -> None:
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyspark").__file__).collect()
    assert found == [pyspark.__file__]
    assert "SPARK_HOME" not in os.environ
