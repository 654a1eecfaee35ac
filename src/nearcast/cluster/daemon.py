"""What Spark starts on an executor to fork Python workers from: has everything imported, so that workers are born warm."""

from __future__ import annotations

import nearcast.cluster.turn  # noqa: F401
from pyspark.daemon import manager

if __name__ == "__main__":
    manager()
