"""`Within` by AP-Tree and AP+-Tree: a message meets only the subscriptions that its words and its place lead to.

A subscription becomes one *entry* for each clause of its expression: a box around its region and its rarest words
(`entries`). Entries are filed in a tree (`layout`, `arrays`, `paths`):

- a *keyword node* cuts the words at one offset into intervals, its *cuts*; an entry goes to the cut of its word there,
  or to the *dummy* if it has no word left;
- a *space node* cuts its region into a grid of uneven *cells*; an entry goes to every cell that its box meets, or to
  the dummy if its box holds the whole region;
- a *leaf* is a list of entries, packed for scanning (`leaf_block`).

Which of the two a node is, and where its cuts and lines lie, is what costs a message least (`build`): the entries
behind every part, times the probability that a message goes there, taken from messages that arrived recently, or live
when the tree is first built, and from the subscriptions themselves; and the visits to nodes and leaves.

Messages go down together, level by level, so that memory answers many of them at once (`descend`): each follows the
cuts that its words hit and the cell that holds it. The leaves where it ends are scanned (`match`). What matches comes
in the order of updates (`match_order`).

Entries come and go (`upkeep`). Leaves that grow long are partitioned, nodes that empty become leaves again, and a
subtree whose weights have drifted is built again beside the old one, some rows with every call (`ap_tree`). Words are
ranked rarest first, again with every new root (`word_order`).

With a window, live messages are listed with the leaves that they reach, so that a subscription that moves or is new
finds them where it is filed (`moving`). A list knows since when it is complete; older messages are found by the message
index of the window. How subscriptions move makes cutting by space more expensive, and long lists too: once they move,
or move otherwise, the root is built again by what that costs.

One or two words in a plain box decide alone where 8 bits of its sides suffice; the exact check of the query kind
decides the rest. `invariants` asserts that all this is consistent.
"""

from nearcast.engines.within.engine import WithinApTree
from nearcast.engines.within.settings import ApTreeSettings

__all__ = ["ApTreeSettings", "WithinApTree"]
