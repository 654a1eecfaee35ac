"""Settings of every run."""

from __future__ import annotations

import os

import numpy as np

if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
    np.seterr(
        over="ignore", invalid="ignore"
    )  # compiled kernels let infinities pass without a word, and so must plain ones
