"""Other people's indexes for `Within`, written to be compared with: the same contract, the same exact answers.

Each is an engine that could stand in a broker. What they share is `base.py`: a subscription becomes one entry for each
of its clauses, with a box and the rarest words beside it (`clauses.py`); entries are filed in lists by key
(`lists.py`); an arrival names the keys whose lists it looks into, and what passes box and words there is verified
exactly (`match.py`). The rivals differ in the keys.

| rival | an entry is filed under | an arrival looks under |
| --- | --- | --- |
| `Scan` | nothing | everything |
| `TwoLevel` | its rarest word and the cells of that word's uniform grid | each of its words, one cell each |
| `IQTree` | quadtree cells chosen by cost, and in each its rarest word | every cell above it, each of its words |
| `RQTree` | its rarest word, and cells chosen by cost in that word's quadtree | each word, the levels that it uses |
| `TrieQd` | all its words, along a trie, and cells of a quadtree there | every node of the trie that its words reach |
| `IQPlus`, `RQPlus` | as `IQTree`, `RQTree` | the same |
| `SSIndex` | the cells of one grid, and in each its rarest word | its cell, each of its words |
| `KKIndex` | its rarest word, and the cells of the grid if its list is long | each of its words, one cell each |

The last four are for subscriptions that move (`moving.py`): they also file live messages, under the keys at which an
arrival may have to look (`live.py`), and find what a move changes in the lists of the keys that it leaves and enters.
"""
