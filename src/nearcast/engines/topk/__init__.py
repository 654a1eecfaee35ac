"""`TopK` by Skype: which subscriptions a message concerns, and how results outlive the messages that expire.

**Dissemination.** A message concerns a subscription only if its score reaches the floor of the subscription's buffer,
and they share a word. Subscriptions are filed under each of their words. A word's subscriptions are cut into cells by
place (a quadtree) and each cell into groups by alpha. In a group they are sorted by a key: how long the rest of a
message from this word on must be, as a vector, before it can reach the floor even from next door. A message takes its
words from the rarest on, and each word skips the cells and groups whose keys are too large, stops inside a group at the
first such key, and looks at what is left one by one. Only few of those are verified by the exact score.

**Re-evaluation.** Buffers, floors and refills are shared with the other engine that keeps results, in `engines/kept`:
`skyband.py` there explains how deep a buffer goes. When a floor changes, the subscription's postings move to the place
in their groups that their new keys have, so that all bounds are right at every moment and nothing is rebuilt for it.

| module | what it does |
| --- | --- |
| `layout.py` | the index as arrays |
| `keys.py` | what subscriptions are filed under, and why |
| `postings.py` | where the fields of a posting lie, sixteen postings side by side |
| `groups.py`, `build.py` | filing, taking out, cutting words into cells and groups |
| `match.py`, `sift.py` | a message finds its subscriptions; many postings are compared at once |
| `events.py` | the kernel that takes events into the results |
| `skype_index.py` | `SkypeIndex`: owns the arrays and grows them |
| `engine.py` | `TopKSkype`: the engine |
| `settings.py`, `invariants.py` | parameters; assertions on the index, for tests |
"""

from nearcast.engines.topk.engine import TopKSkype
from nearcast.engines.topk.settings import SkypeSettings

__all__ = ["SkypeSettings", "TopKSkype"]
