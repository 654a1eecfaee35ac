"""Numbers the cells of grids and quadtrees: the cell of a place, the box of a cell: kernels.

`bounds` is `Space.bounds`, a plain tuple of four floats. Along an axis cell i is [edge(i), edge(i + 1)), the first and
the last one open to the outside, so that every place has one cell and the box of its cell holds it, rounding or not.
Cell numbers never fall when a coordinate grows: the cells that meet a box are those between the cells of its corners.
Quadtree cells nest: the cell at a coarser level is the Morton code without its last bits, two for each level.

Under haversine a place is filed under its wrapped longitude, `wrap(x)`; the box of an outer cell then ends at the date
line.
"""

from __future__ import annotations

import math

from nearcast.jit import kernel
from nearcast.space.distance import EUCLIDEAN

MAX_LEVEL = 31  # of a quadtree: its Morton codes have 62 bits

Bounds = tuple[float, float, float, float]


@kernel
def cell_edge(low: float, high: float, n: int, i: int) -> float:
    """Lower edge of cell `i` of the `n` that share low..high; the same float for equal i / n."""
    return low + (high - low) * (i / n)


@kernel
def cell_index(low: float, high: float, n: int, value: float) -> int:
    """The last of the `n` cells that share low..high whose lower edge is not above `value`, the first if none."""
    if not low < high:
        return n - 1 if value >= low else 0
    place = (value - low) / (high - low) * n
    i = 0
    if place >= n:
        i = n - 1
    elif place >= 1.0:
        i = int(place)
    while i > 0 and value < cell_edge(low, high, n, i):  # rounding put it one too far
        i -= 1
    while i < n - 1 and value >= cell_edge(low, high, n, i + 1):
        i += 1
    return i


@kernel
def cell_box(metric: int, bounds: Bounds, n_columns: int, n_rows: int, column: int, row: int) -> Bounds:
    """Closed box (x0, y0, x1, y1) around a cell: outer sides are infinite, or the date line under haversine."""
    end = math.inf if metric == EUCLIDEAN else 180.0
    x0 = cell_edge(bounds[0], bounds[2], n_columns, column)
    x1 = cell_edge(bounds[0], bounds[2], n_columns, column + 1)
    y0 = cell_edge(bounds[1], bounds[3], n_rows, row)
    y1 = cell_edge(bounds[1], bounds[3], n_rows, row + 1)
    if column == n_columns - 1:
        x1 = max(x0, end)
    if column == 0:
        x0 = min(x1, -end)
    if row == n_rows - 1:
        y1 = math.inf
    if row == 0:
        y0 = -math.inf
    return x0, y0, x1, y1


@kernel
def grid_cell(x: float, y: float, bounds: Bounds, n_columns: int, n_rows: int) -> int:
    """Number of the grid cell of (x, y): row * n_columns + column, from the lower left corner."""
    column = cell_index(bounds[0], bounds[2], n_columns, x)
    return cell_index(bounds[1], bounds[3], n_rows, y) * n_columns + column


@kernel
def grid_box(metric: int, bounds: Bounds, n_columns: int, n_rows: int, cell: int) -> Bounds:
    """Closed box of a grid cell."""
    return cell_box(metric, bounds, n_columns, n_rows, cell % n_columns, cell // n_columns)


@kernel
def _spread(bits: int) -> int:
    """The low 31 bits, each followed upwards by a 0."""
    bits = (bits | bits << 16) & 0x0000FFFF0000FFFF
    bits = (bits | bits << 8) & 0x00FF00FF00FF00FF
    bits = (bits | bits << 4) & 0x0F0F0F0F0F0F0F0F
    bits = (bits | bits << 2) & 0x3333333333333333
    return (bits | bits << 1) & 0x5555555555555555


@kernel
def _gather(bits: int) -> int:
    """Every other bit, from the lowest on: undoes `_spread`."""
    bits &= 0x5555555555555555
    bits = (bits | bits >> 1) & 0x3333333333333333
    bits = (bits | bits >> 2) & 0x0F0F0F0F0F0F0F0F
    bits = (bits | bits >> 4) & 0x00FF00FF00FF00FF
    bits = (bits | bits >> 8) & 0x0000FFFF0000FFFF
    return (bits | bits >> 16) & 0x00000000FFFFFFFF


@kernel
def morton(x: float, y: float, bounds: Bounds, level: int) -> int:
    """Morton code of the quadtree cell of (x, y), `level` 0 to MAX_LEVEL: columns in even bits, rows in odd ones."""
    side = 1 << level
    column = cell_index(bounds[0], bounds[2], side, x)
    return _spread(column) | _spread(cell_index(bounds[1], bounds[3], side, y)) << 1


@kernel
def morton_cell(code: int) -> tuple[int, int]:
    """Column and row of the cell with this Morton code."""
    return _gather(code), _gather(code >> 1)


@kernel
def morton_box(metric: int, bounds: Bounds, level: int, code: int) -> Bounds:
    """Closed box of a quadtree cell."""
    side = 1 << level
    return cell_box(metric, bounds, side, side, _gather(code), _gather(code >> 1))
