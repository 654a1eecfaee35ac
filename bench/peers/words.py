"""Which word of a subscription the fewest messages hold."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from bench.open.workload import Workload


def with_rarest(workload: Workload) -> pa.Table:
    """The subscriptions with the column `rarest`, by the messages that are live before."""
    before = workload.messages["keywords"].slice(0, workload.task.before)
    held = Counter(before.combine_chunks().flatten().to_pylist())
    rarest = [
        min(words, key=lambda word: (held[word], word)) for words in workload.subscriptions["keywords"].to_pylist()
    ]
    return workload.subscriptions.append_column("rarest", pa.array(rarest, pa.string()))
