"""The one score function of each query kind: rows of a message and a subscription in, the exact number out.

Every engine, refill and shard takes its numbers from here, so that they are the same to the last bit everywhere. One
side is *scattered*: `dense[term]` holds count * idf of each of its words and 0 elsewhere. The other side is walked
along its row, which is sorted by the words' UTF-8 bytes. Since a product does not depend on which side is which, both
directions add the same numbers in the same order.
"""

from __future__ import annotations

from typing import Any

from nearcast.columns.arena import Floats, Ints
from nearcast.jit import kernel


@kernel
def scatter(terms: Ints, counts: Ints, start: int, n_terms: int, idf: Floats, dense: Floats) -> None:
    """Put a row's words into `dense`, which is all zeros before."""
    for i in range(start, start + n_terms):
        dense[terms[i]] = counts[i] * idf[terms[i]]


@kernel
def mark(terms: Ints, start: int, n_terms: int, dense: Floats) -> None:
    """Put a row's words into `dense` where their weights do not matter."""
    for i in range(start, start + n_terms):
        dense[terms[i]] = 1.0


@kernel
def gather(terms: Ints, start: int, n_terms: int, dense: Floats) -> None:
    """Take a row's words out of `dense` again."""
    for i in range(start, start + n_terms):
        dense[terms[i]] = 0.0


@kernel
def dot_row(terms: Ints, counts: Ints, start: int, n_terms: int, idf: Floats, dense: Floats) -> float:
    """Dot product of a row's tf-idf vector with the scattered one; positive exactly when they share a word."""
    total = 0.0
    for i in range(start, start + n_terms):
        other = dense[terms[i]]
        if other != 0.0:
            total += (counts[i] * idf[terms[i]]) * other
    return total


@kernel
def dot(messages: Any, slot: int, idf: Floats, dense: Floats) -> Any:
    """`dot_row` for a stored message."""
    row = messages.rows[slot]
    return dot_row(messages.terms, messages.counts, row.term_start, row.n_terms, idf, dense)


@kernel
def shares_word(terms: Ints, start: int, n_terms: int, dense: Floats) -> Any:
    """Does a row share a word with the scattered side?"""
    for i in range(start, start + n_terms):
        if dense[terms[i]] != 0.0:
            return True
    return False


@kernel
def shared_row(terms: Ints, start: int, n_terms: int, idf: Floats, dense: Floats) -> tuple[float, int]:
    """Weight and number of the distinct words that a row shares with the scattered side."""
    weight = 0.0
    n_shared = 0
    for i in range(start, start + n_terms):
        if dense[terms[i]] != 0.0:
            weight += idf[terms[i]]
            n_shared += 1
    return weight, n_shared


@kernel
def topk_score(alpha: float, ssim: float, dot: float, norm_s: float, norm_m: float) -> float:
    """Score of `TopK`: alpha * ssim + (1 - alpha) * cos, for messages that share a word."""
    return alpha * ssim + (1.0 - alpha) * (dot / (norm_s * norm_m))


@kernel
def similar_score(delta: float, tsim: float, ssim: float) -> float:
    """Score of `Similar`: delta * tsim + (1 - delta) * ssim."""
    return delta * tsim + (1.0 - delta) * ssim
