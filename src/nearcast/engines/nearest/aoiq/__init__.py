"""`Nearest(match="all")`: the AOIQ-tree of CkQST, a quadtree whose nodes hold ordered posting lists.

A subscription's search range, its ball, is covered by a few nodes of a quadtree; a cost model weighs few large nodes,
that many messages meet, against many small ones, that cost more to follow. In a node it stands in the list of its two
rarest words, and in a list in the block for an interval of its third word. An arriving message looks up the pairs of
its words, in the nodes above its place, and reads only blocks whose interval holds another word of it. The messages of
a batch are grouped by block, so that each block is read once for all of them.

Ranges shrink and grow with every result. Entries that are left behind carry an old generation: they die where they are
and are removed when a message comes by, or are used again if the subscription comes back.
"""

from nearcast.engines.nearest.aoiq.tree import AoiqSettings, AoiqTree

__all__ = ["AoiqSettings", "AoiqTree"]
