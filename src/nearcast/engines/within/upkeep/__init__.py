"""What keeps a tree good: entries come and go, leaves are split and merged, and subtrees that drifted are rebuilt."""
