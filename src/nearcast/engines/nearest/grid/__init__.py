"""`Nearest(match="any")`: a grid with an inverted file in each cell, as a worker of DkM-SKS keeps it.

A subscription's ball reaches as far as a message may lie to enter its result. Whoever asks for a word of an arriving
message and whose ball holds its place is a candidate. Subscriptions are filed by word and cell: those of small balls in
the small cells of fine grids, those of large balls in coarse ones, those that still lack results in one cell for
everything. When a ball has shrunk to half, its subscription moves to a finer grid; the entries that it leaves behind
carry an older generation and are removed when a message comes by.
"""

from nearcast.engines.nearest.grid.grid import GridPyramid, GridSettings

__all__ = ["GridPyramid", "GridSettings"]
