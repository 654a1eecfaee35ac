"""What Spark forks Python workers from: has everything imported, so that workers are born warm."""

from __future__ import annotations

from pyspark.daemon import manager

import nearcast.spark

if __name__ == "__main__":
    assert nearcast.spark
    manager()
