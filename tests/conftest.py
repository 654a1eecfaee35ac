"""Settings of every run."""

from __future__ import annotations

import os

import numpy as np
from hypothesis import settings

# No deadline: the first call of a kernel compiles it. The same examples in every run, unless HYPOTHESIS_EXPLORE is set.
settings.register_profile("nearcast", deadline=None, derandomize="HYPOTHESIS_EXPLORE" not in os.environ)
settings.load_profile("nearcast")

if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
    # Compiled kernels let infinities pass without a word, and so must plain ones.
    np.seterr(over="ignore", invalid="ignore")
