"""Estimates what it costs, on top of matching, that subscriptions move when a node is cut by space: kernels.

Costs are in verifications of one subscription, per epoch; an epoch is a fixed number of events, the paper's timestamp.
The cost of matching is per message: it counts as often as messages reach the node in an epoch.

Paper: [APTREE] section 4.3.1, equations 7 to 15.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Ints
from nearcast.engines.within.upkeep.drift import drift
from nearcast.jit import kernel

BOXES_PER_CELL = 16  # fewer, and what chance moves between the cells hides what moves together


class Pace(NamedTuple):
    """What the costs of movement depend on besides the node."""

    fanout: int  # parts of a node (f)
    leaf_rows: float  # subscriptions of a node that is not cut any more (θ_p)
    theta_kl: float  # drift from which a node is built again (θ_KL)
    update_epochs: float  # mean epochs between two moves of a subscription that moves (T_upd)
    max_epochs: int  # how far to look ahead (T_max)


@kernel
def lengths_passed(move: float, length: float) -> float:
    """How many times its length a node is passed by a move along one dimension, at most once."""
    if move == 0.0:
        return 0.0
    return abs(move) / length if abs(move) < length else 1.0


@kernel
def nodes_passed(moves: Array, extent: Any) -> float:
    """Sum over subscriptions of the nodes like this one passed in an epoch, at most one each.

    `moves` are rows dx, dy per epoch, `extent` is a `Rectangle`.

    Paper: [APTREE] section 4.3.1, min(1, ζ_s) of equation 9.
    Departs: computed, not counted over a long time: a straight move of (dx, dy) through copies of the node enters
    |dx| / width + |dy| / height of them.
    """
    width, height = extent.x1 - extent.x0, extent.y1 - extent.y0
    passed = 0.0
    for i in range(moves.shape[0]):
        passed += min(1.0, lengths_passed(moves[i, 0], width) + lengths_passed(moves[i, 1], height))
    return passed


@kernel
def location_update_cost(passed: float, path_length: int, fanout: int, update_epochs: float) -> float:
    """Cost of taking subscriptions out of a node and filing them elsewhere.

    Paper: [APTREE] section 4.3.1, equations 8 and 9, C_slu.
    Departs: the logarithm has base 2: finding a part is a binary search.
    """
    return 2.0 * passed * path_length * math.log2(fanout) / update_epochs


@kernel
def count_centres(boxes: Array, moves: Array, extent: Any, epoch: int, side: int, counts: Ints) -> None:
    """Count the centres of the boxes, moved on by some epochs, in `side` * `side` equal cells of a node.

    Of a box that reaches out of the node the part inside counts. Who leaves on one side comes in on the other, as if
    copies of the node lay all around it: as many come as go.
    """
    counts[: side * side] = 0
    for i in range(boxes.shape[0]):
        cell = 0
        for axis in range(2):
            low, high = extent[axis], extent[axis + 2]
            at = 0.0
            if 0.0 < high - low < np.inf:
                middle = 0.5 * max(low, boxes[i, axis]) + 0.5 * min(high, boxes[i, axis + 2])
                at = (middle - low + epoch * float(moves[i, axis])) / (high - low)
                at -= np.floor(at)
            if not at < 1.0:  # rounded up, or moved past the largest number
                at = 0.0
            cell = cell * side + min(side - 1, int(at * side))
        counts[cell] += 1


@kernel
def reconstruction_interval(boxes: Array, moves: Array, extent: Any, pace: Pace, olds: Ints, nows: Ints) -> int:
    """Epochs until the node will have drifted so far that it is built again, at most `max_epochs`.

    A few hundred boxes, evenly selected, are enough. The int32 scratch `olds` and `nows` needs max(4, fanout)
    entries.

    Paper: [APTREE] section 4.3.1, algorithm 8.
    Departs: `drift` leaves out what chance moves, and the grid is coarser than √f * √f for few boxes, so that less of
    the drift is lost with it.
    """
    n_moving = 0
    for i in range(moves.shape[0]):
        if moves[i, 0] != 0.0 or moves[i, 1] != 0.0:
            n_moving += 1
    if n_moving == 0:
        return pace.max_epochs
    side = max(2, int(math.sqrt(min(pace.fanout, boxes.shape[0] // BOXES_PER_CELL))))
    count_centres(boxes, moves, extent, 0, side, olds)
    for epoch in range(1, pace.max_epochs):
        count_centres(boxes, moves, extent, epoch, side, nows)
        if drift(olds, nows, 0, side * side) > pace.theta_kl:
            return epoch
    return pace.max_epochs


@kernel
def reconstruction_cost(n_rows: int, n_words: int, pace: Pace, epochs: int) -> float:
    """Cost of building the tree below a node of `n_rows` subscriptions again, once in `epochs` epochs.

    Paper: [APTREE] section 4.3.1, equations 10 to 13, C_irc.
    Departs: the logarithm of a binary search has base 2, and a tree of less than a leaf has no negative height.
    """
    height = max(0.0, math.log(max(1.0, n_rows / pace.leaf_rows)) / math.log(pace.fanout))
    level = n_rows * math.log2(pace.fanout) + n_rows * math.sqrt(pace.fanout) + pace.fanout * n_words
    return level * (height + 1.0) / epochs


@kernel
def penalty(
    boxes: Array, moves: Array, extent: Any, pace: Pace, n_rows: int, n_words: int, path_length: int, scratch: Array
) -> float:
    """What movement adds in an epoch to the cost of cutting by space a node of `n_rows` subscriptions.

    `boxes` and `moves` may be those of some of them only. The scratch is int32[2, max(4, fanout)]. Divided by the
    messages that reach the node in an epoch, this is in the unit of `grid_cost`.

    Paper: [APTREE] section 4.3.1, equation 15 without C_imm.
    Departs: where nothing moves, nothing is added. Equation 7 multiplies by all messages, though p(B) is a share of
    those that reach the node; hence the division.
    """
    passed = nodes_passed(moves, extent)
    if passed == 0.0:
        return 0.0
    epochs = reconstruction_interval(boxes, moves, extent, pace, scratch[0], scratch[1])
    updates = location_update_cost(passed * n_rows / moves.shape[0], path_length, pace.fanout, pace.update_epochs)
    return updates + reconstruction_cost(n_rows, n_words, pace, epochs)
