"""Measures how far the weights of a node's parts have drifted since it was built: kernels.

Paper: [APTREE] section 3.3.5.
"""

from __future__ import annotations

import math

from nearcast.columns.arena import Ints
from nearcast.jit import kernel

PRIOR = 0.5  # rows added to every part, so that one that is empty now stays finite
DEVIATIONS = 3.0  # by which chance alone may exceed what is expected of it


@kernel
def divergence(olds: Ints, nows: Ints, first: int, n: int) -> tuple[float, float]:
    """Kullback-Leibler divergence of the parts `first` to `first + n`, and what chance alone may amount to.

    Paper: [APTREE] section 3.3.5.
    Departs: smoothed, because the divergence is infinite as soon as one part is empty; parts empty then and now are
    left out. Of two samples of one distribution, twice the divergence over 1/n_old + 1/n_now is about a chi square with
    a degree of freedom less than there are parts.
    """
    n_parts, n_old, n_now = 0, 0.0, 0.0
    for part in range(first, first + n):
        if olds[part] + nows[part] > 0:
            n_parts += 1
            n_old += olds[part] + PRIOR
            n_now += nows[part] + PRIOR
    if n_parts < 2:
        return 0.0, 0.0
    found = 0.0
    for part in range(first, first + n):
        if olds[part] + nows[part] > 0:
            old, now = (olds[part] + PRIOR) / n_old, (nows[part] + PRIOR) / n_now
            found += old * math.log(old / now)
    freedom = n_parts - 1.0
    by_chance = 0.5 * (1.0 / n_old + 1.0 / n_now) * (freedom + DEVIATIONS * math.sqrt(2.0 * freedom))
    return found, by_chance


@kernel
def drift(olds: Ints, nows: Ints, first: int, n: int) -> float:
    """How far the weights of a node's parts have moved, beyond chance; at most 0 where nothing can be said.

    Paper: [APTREE] section 3.3.5: a node is built again when this exceeds θ_KL.
    Departs: less what chance alone may amount to. Of 1,000 rows in 200 parts, all replaced by others like them, that is
    0.2, two hundred times θ_KL, and the node would be built again and again.
    """
    found, by_chance = divergence(olds, nows, first, n)
    return found - by_chance
