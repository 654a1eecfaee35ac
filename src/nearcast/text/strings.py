"""Converts Arrow strings to bytes and starts, the form that kernels read, and back."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Starts = npt.NDArray[np.int64]
Whole = int | np.int64  # a whole number, as it passes between kernels


def arrow_bytes(column: pa.Array | pa.ChunkedArray) -> tuple[Bytes, Starts]:
    """The bytes of an Arrow column of strings and where each row starts; a null is an empty row.

    Both arrays are fresh: Arrow's own memory is read-only, for which kernels would be compiled a second time.
    """
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    parts, starts, end = [], [np.zeros(1, np.int64)], 0
    for chunk in chunks:
        if not (pa.types.is_string(chunk.type) or pa.types.is_large_string(chunk.type)):
            chunk = chunk.cast(pa.large_string())
        if chunk.null_count:
            chunk = chunk.fill_null("")
        if len(chunk) == 0:
            continue
        _, offsets, values = chunk.buffers()
        width = np.int32 if pa.types.is_string(chunk.type) else np.int64
        first = np.frombuffer(offsets, width)[chunk.offset : chunk.offset + len(chunk) + 1].astype(np.int64)
        if values is not None:
            parts.append(np.frombuffer(values, np.uint8)[first[0] : first[-1]])
        starts.append(first[1:] - first[0] + end)
        end += int(first[-1] - first[0])
    return np.concatenate(parts) if parts else np.zeros(0, np.uint8), np.concatenate(starts)


def strings_to_arrow(data: Bytes, starts: Starts) -> pa.Array:
    """The Arrow strings whose UTF-8 bytes are data[starts[i]:starts[i + 1]]; large_string past two gigabytes."""
    small = starts[-1] < 2**31
    array = pa.StringArray if small else pa.LargeStringArray
    offsets = starts.astype(np.int32) if small else starts
    return array.from_buffers(len(starts) - 1, pa.py_buffer(offsets), pa.py_buffer(data))
