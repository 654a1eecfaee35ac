from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.text.strings import arrow_bytes, strings_to_arrow


def unpacked(data, starts):
    return [data[a:b].tobytes() for a, b in pairwise(starts)]


@settings(deadline=None)
@given(st.lists(st.none() | st.text(max_size=5), max_size=12), st.integers(0, 12), st.data())
def test_arrow_bytes_of_any_cut(rows, cut, data):
    kind = data.draw(st.sampled_from([pa.string(), pa.large_string(), pa.string_view()]))
    column = pa.array(rows, kind)
    expected = [(row or "").encode() for row in rows]
    assert unpacked(*arrow_bytes(column)) == expected
    assert unpacked(*arrow_bytes(column[cut:])) == expected[cut:]
    assert unpacked(*arrow_bytes(pa.chunked_array([column[:cut], column[cut:]], kind))) == expected
    assert unpacked(*arrow_bytes(pa.chunked_array([], kind))) == []
    for array in arrow_bytes(column):
        assert array.flags.c_contiguous
        assert array.flags.writeable


def test_a_null_that_hides_bytes_is_empty():
    hiding = pa.Array.from_buffers(
        pa.string(), 2, [pa.py_buffer(b"\x02"), pa.py_buffer(np.array([0, 3, 5], np.int32)), pa.py_buffer(b"oldok")]
    )
    assert unpacked(*arrow_bytes(hiding)) == [b"", b"ok"]
    assert unpacked(*arrow_bytes(pa.nulls(2))) == [b"", b""]


def test_past_two_gigabytes_strings_are_large():
    data = np.zeros(2**31, np.uint8)  # never touched, so it takes no memory
    strings = strings_to_arrow(data, np.array([0, 2, 2**31], np.int64))
    assert strings.type == pa.large_string()
    assert strings[0].as_py() == "\0\0"
