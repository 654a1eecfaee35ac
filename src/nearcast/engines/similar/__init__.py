"""`Similar` by STAMP: every message whose words and place together come near enough, found by prefixes.

A subscription matches when delta times its text similarity and 1 - delta times its spatial similarity reach tau. Either
may make up for the other, so neither words nor place alone rule a subscription out. Together they do:

- Order a subscription's words by weight. If a message shares none before position i, its text similarity is bounded by
  the words from i on, and that leaves a least spatial similarity. Positions that not even the best place could help are
  not filed: what is filed is the **prefix**, and each entry carries its bound on the place (`bounds`, `prefixes`).
- Some words suffice from anywhere. They are filed apart, in leaves without a region. The others are filed by place in
  a tree of **regions**; a message skips every region that is farther than all bounds in it (`region_tree`). A message
  outside a region needs still fewer entries: each list has a part that only messages inside read.
- Where one shared word can never be enough, words after the prefix are filed as well, by **level**: whoever is to match
  must turn up more than k times by level k. Counting costs little, and drops candidates unseen (`candidates`). If
  verifying them looks cheaper, that is done instead.
- What is left is verified by its score (`verify`). A leaf has all that scores are made of side by side, so that few
  members need a read of the table.

Only the leaf where the first shared word of a subscription is filed reports it, so no match is reported twice. New
members of a leaf wait outside of its lists, and removed ones stay marked, until the leaf is rebuilt. `layout` has the
arrays, `build` writes them, `match` walks through them; `stamp_index` owns them, in blocks from `block_pool`, and
splits and merges leaves; `invariants` checks them; `engine` is the class behind the contract, with its `settings`. The
derivations are in `docs/similar.md`.
"""

from nearcast.engines.similar.engine import SimilarStamp
from nearcast.engines.similar.settings import FILTERS, STRATEGIES, StampSettings

__all__ = ["FILTERS", "STRATEGIES", "SimilarStamp", "StampSettings"]
