"""How far a buffer of `Nearest` reaches by the cost model of CkQST: kernels."""

from __future__ import annotations

import math

import numpy as np

from nearcast.jit import kernel

# What verifying a message costs, with all that an index does to find it, in steps through a buffer of 10 ns: with a
# million subscriptions and a million live messages 21 us for 38 candidates, of which 26 were kept (2026-11-18).
_VERIFIED = 80


@kernel
def updates_until_short(k: int, n: int) -> float:
    """How many messages come or go, as expected, until fewer than k of n in a search range are left; those in it only.

    Paper: [CKQST] section 3.6, equations 16 and 17, with p = 1: the others change nothing.
    """
    fall = n - k + 1.0
    return 2.0 * fall * n + fall * (fall + 1.0)


@kernel
def worth_covering(k: int, most: int, cost: float) -> int:
    """How many of the `most` best messages found the search range covers, if finding them again costs `cost`.

    What is least per turn of the window, in which n messages come into the range and n leave it.

    Paper: [CKQST] section 3.6, equations 13 to 15.
    Departs: equation 13 adds up the leaves that the range meets; here it is n messages, each at what verifying one was
    measured to cost. The size of the skyband in equation 14 is k (1 + ln(n / k)), since the maximum that stands there
    would always be n. What an evaluation costs is that of the one that was made. There are no more than `most`.
    """
    best, least, n = most, np.inf, most
    while n > k:
        upkeep = n * (_VERIFIED + k * (1.0 + math.log(n / k)))
        value = upkeep + cost * 2.0 * n / updates_until_short(k, n)
        if value < least:
            best, least = n, value
        n -= 1
    return best
