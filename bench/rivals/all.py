"""All rivals by name."""

from __future__ import annotations

from bench.rivals.base import Rival
from bench.rivals.fast import Fast
from bench.rivals.iq_plus import IQPlus
from bench.rivals.iq_tree import IQTree
from bench.rivals.kk_index import KKIndex
from bench.rivals.rq_plus import RQPlus
from bench.rivals.rq_tree import RQTree
from bench.rivals.scan import Scan
from bench.rivals.ss_index import SSIndex
from bench.rivals.trie_qd import TrieQd
from bench.rivals.two_level import TwoLevel

RIVALS: tuple[type[Rival], ...] = (Scan, TwoLevel, IQTree, RQTree, TrieQd, Fast, IQPlus, RQPlus, SSIndex, KKIndex)
BY_NAME = {rival.name: rival for rival in RIVALS}
