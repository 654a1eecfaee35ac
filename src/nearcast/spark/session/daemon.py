"""What Spark forks Python workers from: has everything imported, so that workers are born warm."""

from __future__ import annotations

import pyarrow as pa
from pyspark.daemon import manager

from nearcast.spark import stream
from nearcast.spark.run import file_source, parts

if __name__ == "__main__":
    assert all((stream, file_source, parts))
    pa.array([0])  # PyArrow imports pandas at its first conversion: 0.5 s of CPU in each worker (2026-11)
    manager()
