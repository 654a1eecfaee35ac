"""Text similarity of two sets of words: weighted, overlap, jaccard, dice or cosine."""

from __future__ import annotations

import math

import numpy as np

from nearcast.jit import kernel

WEIGHTED = 0  # shared weight by the subscription's weight
OVERLAP = 1  # shared words by the subscription's words
JACCARD = 2  # shared weight by the weight of both together
DICE = 3  # twice the shared words by the words of each
COSINE = 4  # shared words by the root of the product of the words of each

Int = int | np.int32  # as rows have it

MEASURES = {"weighted": WEIGHTED, "overlap": OVERLAP, "jaccard": JACCARD, "dice": DICE, "cosine": COSINE}


@kernel
def tsim(
    measure: Int, shared_weight: float, n_shared: int, weight_s: float, weight_m: float, n_s: Int, n_m: Int
) -> float:
    """The text similarity of a subscription s and a message m, over their distinct words; 0 if they share none."""
    if n_shared == 0:
        return 0.0
    if measure == WEIGHTED:
        return shared_weight / weight_s
    if measure == OVERLAP:
        return n_shared / n_s
    if measure == JACCARD:
        return shared_weight / (weight_s + weight_m - shared_weight)
    if measure == DICE:
        return 2.0 * n_shared / (n_s + n_m)
    return n_shared / math.sqrt(float(n_s) * float(n_m))
