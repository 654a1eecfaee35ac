"""All rivals of `Similar` by name."""

from __future__ import annotations

from typing import Any

from bench.rivals.similar_base import SimilarRival
from bench.rivals.similar_ir import SimilarIr, SimilarIr100
from bench.rivals.similar_rt import SimilarRt
from bench.rivals.similar_scan import SimilarScan

SMALL: dict[type[SimilarRival], dict[str, Any]] = {  # with settings for small sets
    SimilarScan: {},
    SimilarIr: {"fanout": 8},
    SimilarIr100: {"fanout": 4},
    SimilarRt: {"fanout": 8},
}
BY_NAME = {rival.name: rival for rival in SMALL}
