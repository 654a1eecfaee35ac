from __future__ import annotations

import dataclasses
import pickle

import pytest

from nearcast.model import Reject, Update


def test_updates_and_rejects_are_values() -> None:
    update = Update("ann", 7, "+", 0.5, 9)
    assert dataclasses.astuple(update) == ("ann", 7, "+", 0.5, 9)
    assert pickle.loads(pickle.dumps(update)) == update
    reject = Reject(3, "lon", "lon must be finite, got nan")
    assert dataclasses.astuple(reject) == (3, "lon", "lon must be finite, got nan")
    with pytest.raises(dataclasses.FrozenInstanceError):
        reject.row = 4  # type: ignore[misc]
