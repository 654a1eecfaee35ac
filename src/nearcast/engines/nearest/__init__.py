"""`Nearest`: the k nearest messages that hold all, or any, of a subscription's words.

A subscription looks as far as its k-th message, a circle that shrinks and grows as messages come and go: its *search
range* (`search_range`). A message can concern only those in whose range it lies. Two indexes find them: `aoiq`, the
AOIQ-tree of CkQST, where all words are asked for, and `grid`, the pyramid of grids of a DkM-SKS worker, where any will
do. `engine` runs both over the same events; `batch` verifies their candidates and offers them to the buffers that
`engines/kept` keeps.
"""
