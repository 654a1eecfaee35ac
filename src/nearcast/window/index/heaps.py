"""Two binary heaps in record arrays, the best messages found so far and the nodes still to be visited: kernels."""

from __future__ import annotations

from typing import Any

from nearcast.columns.arena import Array, record
from nearcast.jit import inlined, kernel

QUEUED = record(
    ("bound", "f8"),
    ("segment", "i4"),
    ("node", "i4"),
)
BEST = record(
    ("magnitude", "i8"),  # minus the exponent of a key that fades, else 0: the smaller the better
    ("key", "f8"),  # distance, or minus the score or its mantissa while searching: the smaller the better
    ("sequence", "i8"),
    ("slot", "i4"),
)


@inlined
def worse(a: Any, b: Any) -> Any:
    """Does the first message come after the second?"""
    if a.magnitude != b.magnitude:
        return a.magnitude > b.magnitude
    return a.key > b.key or (a.key == b.key and a.sequence < b.sequence)


@inlined
def swap(heap: Any, i: Any, j: Any) -> None:
    """Exchange two messages."""
    a, b = heap[i], heap[j]
    a.magnitude, b.magnitude = b.magnitude, a.magnitude
    a.key, b.key = b.key, a.key
    a.sequence, b.sequence = b.sequence, a.sequence
    a.slot, b.slot = b.slot, a.slot


@inlined
def sift_down(heap: Any, n: int) -> None:
    """Let the first message sink to its place: the worst of n messages comes first."""
    at = 0
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and worse(heap[child + 1], heap[child]):
            child += 1
        if not worse(heap[child], heap[at]):
            return
        swap(heap, at, child)
        at = child


@inlined
def offer(heap: Any, n: int, k: Any, magnitude: Any, key: Any, sequence: int, slot: int) -> Any:
    """Keep the message if it is among the k best; returns how many are kept."""
    if n == k:
        worst = heap[0]
        if magnitude > worst.magnitude:
            return n
        if magnitude == worst.magnitude and (key > worst.key or (key == worst.key and sequence < worst.sequence)):
            return n
        worst.magnitude, worst.key, worst.sequence, worst.slot = magnitude, key, sequence, slot
        sift_down(heap, n)
        return n
    new = heap[n]
    new.magnitude, new.key, new.sequence, new.slot = magnitude, key, sequence, slot
    at = n
    while at > 0 and worse(heap[at], heap[(at - 1) >> 1]):
        swap(heap, at, (at - 1) >> 1)
        at = (at - 1) >> 1
    return n + 1


@inlined
def push(queue: Any, n: int, bound: Any, segment: Any, node: int) -> Any:
    """Add a node to the queue; returns its new length."""
    at = n
    while at > 0 and queue[(at - 1) >> 1].bound > bound:
        over = queue[(at - 1) >> 1]
        entry = queue[at]
        entry.bound, entry.segment, entry.node = over.bound, over.segment, over.node
        at = (at - 1) >> 1
    entry = queue[at]
    entry.bound, entry.segment, entry.node = bound, segment, node
    return n + 1


@inlined
def pop(queue: Any, n: int) -> Any:
    """Drop the first node of the queue; returns its new length."""
    n -= 1
    last = queue[n]
    at = 0
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and queue[child + 1].bound < queue[child].bound:
            child += 1
        if queue[child].bound >= last.bound:
            break
        entry, under = queue[at], queue[child]
        entry.bound, entry.segment, entry.node = under.bound, under.segment, under.node
        at = child
    entry = queue[at]
    entry.bound, entry.segment, entry.node = last.bound, last.segment, last.node
    return n


@kernel
def sort_best(best: Array, n: int) -> None:
    """Turn the heap of messages into a list, best first."""
    for end in range(n - 1, 0, -1):
        swap(best, 0, end)
        sift_down(best, end)
