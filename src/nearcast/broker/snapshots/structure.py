"""A state from a file and one of an empty broker go in; nothing comes out, unless the first cannot be a broker's.

Checksums find damage; they say nothing of a file that was written by something else. So before anything is loaded, the
state must have exactly the entries that a broker's has, each of the right kind: plain values of the right type, arrays
of the right type and number of axes, and of the right size where that never changes.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from nearcast.columns.arena import Array, State
from nearcast.model.kinds import LABELS

_ANY_SIZE = {
    *(f"engines/within/tree/arrays/{name}" for name in ("parts", "highs", "lines")),
    *(f"tables/{kind}/conditions/{name}" for kind in LABELS for name in ("rows", "texts/entries")),
}
_GROWING = ("slots", "nodes", "leaves", "prefix_keys", "prefix_ids", "list_keys", "list_heads", "lists", "known")
_SIGNED = ("clock", "lowest", "shadow")  # whole numbers that may be negative
_LARGEST = 2**63


def require(holds: Any, otherwise: str) -> None:
    """Raise ValueError unless it holds."""
    if not holds:
        raise ValueError(otherwise)


def within(values: Any, size: int, what: str, least: int = 0) -> None:
    """Require that values are from `least` to `size` - 1."""
    if values.size:
        require(least <= int(values.min()) and int(values.max()) < size, f"{what} out of range")


def spans(starts: Array, lengths: Array, size: int, what: str) -> None:
    """Require that ranges lie inside something of a size."""
    within(lengths, size + 1, what)
    within(starts, size + 1, what)
    require((starts.astype(np.int64) + lengths <= size).all(), f"{what} out of range")


def check_structure(state: Any, empty: State, where: str = "") -> None:
    """Raise ValueError unless `state` has the entries of `empty`, each of the same kind."""
    require(isinstance(state, dict) and state.keys() == empty.keys(), f"{where or 'the state'} has other entries")
    for name, like in empty.items():
        value, at = state[name], f"{where}/{name}" if where else name
        if isinstance(like, dict):
            check_structure(value, like, at)
        elif isinstance(like, np.ndarray):
            _check_array(value, like, at)
        elif name == "type":
            require(value in (None, "string", "integer"), f"{at} is no type of ids")
        else:
            kind = type(like.item() if isinstance(like, np.generic) else like)
            require(type(value) is kind, f"{at} is no {kind.__name__}")
            if type(value) is int:
                least = -_LARGEST if name in _SIGNED else 0
                require(least <= value < _LARGEST, f"{at} is out of range")


def _check_array(value: Any, like: np.ndarray[Any, Any], at: str) -> None:
    """An array that is empty in an empty broker grows along the axes that are 0; of the others, most never change."""
    require(isinstance(value, np.ndarray), f"{at} is no array")
    same_type = value.dtype == like.dtype and value.dtype.isalignedstruct == like.dtype.isalignedstruct
    require(same_type and value.ndim == like.ndim, f"{at} is another array")
    grows = re.sub(r"/\d+/", "/", at) in _ANY_SIZE or at.rsplit("/", 1)[-1].rsplit(".", 1)[-1] in _GROWING
    if not grows:
        fits = all(n == m or m == 0 for n, m in zip(value.shape, like.shape, strict=True))
        require(fits, f"{at} has another size")
