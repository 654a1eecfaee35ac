"""Keeping an AP-Tree good: entries come and go, leaves are split, nodes merged, and subtrees that drifted are rebuilt.

`insert_remove` files and removes entries and notes which leaves became long, which nodes have few entries left, and
whose weights may have drifted; `long_leaves` does the same for leaves so long that a search of each entry would take
too long. `drift` measures how far weights have moved, `rebuild` builds a subtree again slice by slice, and `subtree`
collects, clears and replaces what hangs below a part.
"""
