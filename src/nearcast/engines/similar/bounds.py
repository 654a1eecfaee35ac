"""Bounds the text similarity by the share of shared words, and the share by the text similarity: kernels.

The **share** of some words of a subscription is their part of its weight (`weighted`, `jaccard`) or of its number of
words (the others). `docs/similar.md` derives what is computed here.
"""

from __future__ import annotations

import math

from nearcast.jit import kernel
from nearcast.text.similarity import COSINE, DICE, JACCARD, WEIGHTED

_NEVER = 2.0  # a share that no words have


@kernel
def slack_for(n_words: int) -> float:
    """How much an inequality over sums of `n_words` words is loosened before it filters."""
    return 1e-12 + 4e-16 * n_words


@kernel
def counts_words(mode: int) -> bool:
    """Do all words count the same in this measure?"""
    return mode != WEIGHTED and mode != JACCARD


@kernel
def best_text(mode: int, share: float) -> float:
    """The largest text similarity that any message can have which shares at most this share.

    Paper: [STAMP] equation 3 and section VI-A.
    Departs: Dice and cosine are bounded by the best message, which has no other words: 2u/(1+u) and the root of u. The
    paper's bounds, twice the share and its product with the root of |s|, exceed 1.
    """
    share = min(share, 1.0)
    if mode == DICE:
        return 2.0 * share / (1.0 + share)
    if mode == COSINE:
        return math.sqrt(share)
    return share


@kernel
def least_share(mode: int, text: float) -> float:
    """The smallest share that lets some message reach this text similarity: the inverse of `best_text`."""
    if text <= 0.0:
        return 0.0
    if text > 1.0:
        return _NEVER
    if mode == DICE:
        return text / (2.0 - text)
    if mode == COSINE:
        return text * text
    return text


@kernel
def needed_text(delta: float, tau: float, place: float, slack: float) -> float:
    """Text similarity that is needed when the spatial one is `place`; delta is above 0."""
    return (tau - slack - (1.0 - delta) * place) / delta
