"""Settings of every run."""

from __future__ import annotations

import os

import numpy as np
from hypothesis import settings

settings.register_profile("nearcast", deadline=None)  # the first call of a kernel compiles it
settings.load_profile("nearcast")

if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
    # Compiled kernels let infinities pass without a word, and so must plain ones.
    np.seterr(over="ignore", invalid="ignore")
