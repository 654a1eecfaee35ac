"""Has records read ahead that may lie across two lines of the processor's cache."""

from __future__ import annotations

from typing import Any

from nearcast.jit import inlined, prefetch


@inlined
def prefetch_record(array: Any, index: Any) -> None:
    """`prefetch` a record whole: one that fits no line exactly often ends in the line in which the next one begins.

    That line is as far away as the first. Of rows of subscriptions three in four end there, of boxes of `Nearest` two
    in five.
    """
    prefetch(array, index)
    prefetch(array, index + 1)
