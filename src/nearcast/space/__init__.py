"""Places as numbers.

A `Space` says how far apart two places are and where most of them are expected. From there on everything spatial is
answered by kernels over plain numbers, the same ones for every engine, so that all of them agree to the last bit:

- `distance.py`: the distance of two places, its similarity, and the smallest and largest distance to a box. The bounds
  are what indexes prune with; they hold for the distance as it is computed, not only for the ideal one.
- `regions.py`: whether a place lies in a box, a circle or a polygon, and a box around each, rounded outward. A
  polygon's border is decided exactly.
- `cells.py`: which grid or quadtree cell a place lies in, and the box of a cell. Outer cells are open: a place outside
  the bounds lies in the nearest one and is answered just as exactly.
- `hilbert.py`: places as points whose straight distances bound the real ones, and their order along a Hilbert curve.
- `rounding.py`: bounds in 32 bits, rounded outward.

Under haversine, longitudes are periodic for distances (370 is 10) but not for boxes and polygons, which compare
coordinates as they are. An index over distances files places under `wrap(x)`, which is exact.
"""

from nearcast.space.distance import EUCLIDEAN, HAVERSINE
from nearcast.space.space import Space

__all__ = ["EUCLIDEAN", "HAVERSINE", "Space"]
