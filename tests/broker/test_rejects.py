"""Ids that end, in every form that they may be given in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nearcast.broker.registry import Registry
from nearcast.broker.rejects import ending


def registry_of(ids: list[Any]) -> Registry:
    registry = Registry()
    registry.add(pa.array(ids), 0)
    return registry


@pytest.mark.parametrize(
    "given",
    [
        [3, 9, 1, 3],
        (3, 9, 1, 3),
        pa.array([3, 9, 1, 3]),
        pa.array([3, 9, 1, 3], pa.int32()),
        pa.array([3, 9, 1, 3], pa.uint64()),
        pa.chunked_array([[3, 9], [1, 3]]),
        pa.table({"id": [3, 9, 1, 3], "other": list("abcd")}),
        [{"id": 3}, {"id": 9}, {"id": 1}, {"id": 3}],
        [np.int64(3), 9, np.int16(1), 3],
    ],
    ids=str,
)
def test_numbers_and_rejects_do_not_depend_on_the_form(given: Any) -> None:
    registry = registry_of([1, 2, 3])
    numbers, rejects = ending(given, registry)
    assert numbers.tolist() == [registry.find(3), registry.find(1)]
    assert [(reject.row, reject.field, reject.reason) for reject in rejects] == [
        (1, "id", "id must be the id of a subscription, got 9"),
        (3, "id", "id must be the id of a subscription, got 3"),
    ]


@pytest.mark.parametrize(
    ("given", "n_rejects"),
    [
        ([], 0),
        (pa.array([], pa.string()), 0),
        (pa.array(["a", None, "b"]), 1),
        (["a", "\udc80", "b"], 1),
        ([1, 2**70], 2),
        ([True, "a"], 1),
        (pa.array([1, 2]), 2),
        (pa.table({"name": ["a"]}), 1),
        (pa.array([b"a", b"\xff"]).cast(pa.binary()), 2),
        (pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"a\xff")), 1),
    ],
    ids=str,
)
def test_what_nobody_is_called(given: Any, n_rejects: int) -> None:
    numbers, rejects = ending(given, registry_of(["a", "b"]))
    assert len(rejects) == n_rejects
    assert {reject.field for reject in rejects} <= {"id"}
    assert numbers.dtype == np.int32
    assert numbers.size == (0 if n_rejects == 2 or not len(given) else len(given) - n_rejects)
