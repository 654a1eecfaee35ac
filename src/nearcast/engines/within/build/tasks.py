"""Builds trees from lists of entries, top down, with the cheaper of words and space at every node: kernels.

`BuildStacks` hold tasks: lists of entries, each with the part where its tree shall hang. `build` works on the topmost
task and can stop after any number of rows, so that a large tree is built in slices while the old one still answers.
The lists stand in one stack of entries: a task's list, then those of its children above it.

Paper: [APTREE] section 3.3.4, algorithm 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Ints
from nearcast.engines.within.arrays import block_of, class_of, class_room, hang, new_leaf, new_node
from nearcast.engines.within.build.layout import (
    BUDGET,
    BY_COST,
    MOST_JUDGED,
    N_TARGETS,
    N_TASKS,
    SPACE_FIRST,
    WORDS_FIRST,
    BuildStacks,
    PartitionScratch,
    Plan,
    Sample,
)
from nearcast.engines.within.build.partition_cost import choose_cuts, choose_grid, cost_of_moves
from nearcast.engines.within.layout import (
    BY_SPACE,
    BY_WORDS,
    INTS_PER_LINE,
    KEYWORD,
    LAST_RANK,
    N_LEAVES,
    N_LINES,
    N_NODES,
    N_PARTS,
    NO_NODE,
    NO_WORD,
    SPACE,
    UNRANKED,
    TreeLayout,
)
from nearcast.engines.within.leaf_block import common_field, fill_block, lines_for
from nearcast.engines.within.paths import cell_at, cut_of, parts_below, region_of
from nearcast.jit import NEED_ROOM, kernel
from nearcast.space.rounding import above, below

DONE, PAUSED = 0, 1
NEED_STACK, NEED_TARGETS, NEED_SAMPLED, NEED_TASKS = -2, -3, -4, -5
MOST_DEPTH = 24  # a list this deep stays a list
_GAIN = 0.95  # a partition must cost less than this share of the list
_CHOOSING, _COUNTING, _WRITING = range(3)  # phases of a task


@kernel
def make_leaf(tree: TreeLayout, builder: BuildStacks, task: Any, plan: Plan) -> int:
    """End a task with a leaf; returns DONE or NEED_ROOM."""
    field = common_field(builder.stack, task.start, task.n_rows)
    n_lines = class_room(class_of(lines_for(task.n_rows, field != NO_WORD)))
    if tree.heads[N_LEAVES] == tree.leaves.size or tree.heads[N_LINES] + n_lines > tree.ints.size // INTS_PER_LINE:
        return NEED_ROOM
    leaf = new_leaf(tree, task.part, task.n_rows, field, plan.since)
    if task.n_rows > plan.leaf:
        tree.leaves[leaf].tried = task.n_rows
    block = block_of(tree.parts[task.part])
    fill_block(tree, block, builder.stack, task.start, task.n_rows, region_of(tree, task.part))
    builder.state[BUDGET] -= task.n_rows
    return DONE


@kernel
def put_leaf(tree: TreeLayout, builder: BuildStacks, part: int, n_rows: int, plan: Plan) -> int:
    """Hang the first rows of the stack below a part as a leaf, as `build` does with so few; DONE or NEED_ROOM."""
    task = builder.tasks[0]
    task.part, task.start, task.n_rows = part, 0, n_rows
    return make_leaf(tree, builder, task, plan)


@kernel
def make_node(tree: TreeLayout, task: Any, kind: int, n_parts: int) -> Any:
    """The node of a task, without entries so far."""
    node = new_node(tree, n_parts)
    row = tree.nodes[node]
    row.kind, row.ways, row.offset, row.depth = kind, task.ways, task.offset, task.depth
    row.x0, row.y0, row.x1, row.y1 = task.x0, task.y0, task.x1, task.y1
    row.since, row.n_changes, row.n_columns, row.n_rows = 0, 0, 0, 0
    row.part = task.part
    hang(tree, task.part, node)
    tree.parts[task.part].start = row.first
    task.node, task.phase, task.cursor = node, _COUNTING, 0
    return node


@kernel
def choose_partition(
    tree: TreeLayout,
    builder: BuildStacks,
    task: Any,
    ranks: Ints,
    lowest: int,
    plan: Plan,
    sample: Sample,
    scratch: PartitionScratch,
) -> int:
    """Begin a task: make it a leaf, or a node by words or space, whichever is cheapest; DONE or NEED_ROOM.

    Paper: [APTREE] section 3.3.4, algorithm 4.
    Departs: a list that neither partition makes cheaper stays a list, however long. The first word comes before space,
    because matching finds what it leads to in a table (`descend.enter_by_words`): by cost alone the root of 1 M boxes
    is cut by space, and matching takes twice as long (2026-11-16).
    """
    n = task.n_rows
    if n <= plan.leaf or task.depth >= MOST_DEPTH or task.ways == 0:
        return make_leaf(tree, builder, task, plan)
    if tree.heads[N_NODES] == tree.nodes.size or tree.heads[N_PARTS] + 2 * plan.fanout + 4 > tree.parts.size:
        return NEED_ROOM
    word_cost, space_cost = np.inf, np.inf
    n_cuts, n_words, n_x, n_y = 0, 0, 0, 0
    if task.ways & BY_WORDS:
        word_cost, n_cuts, n_words = choose_cuts(builder, task, ranks, lowest, plan, sample, scratch)
    words_first = plan.priority == WORDS_FIRST or (plan.priority == BY_COST and task.offset == 0)
    if task.ways & BY_SPACE and not (words_first and word_cost < _GAIN * n):
        space_cost, n_x, n_y = choose_grid(builder, task, plan, sample, scratch)
        if plan.displacements.shape[0] > 0 and space_cost < np.inf:
            reached = plan.messages * (task.n_sample + 1) / (sample.xs.size + 1)
            space_cost += cost_of_moves(builder, task, plan, n_words, scratch) / reached
    builder.state[BUDGET] -= min(n, MOST_JUDGED)
    if plan.priority == SPACE_FIRST and space_cost < n:
        word_cost = np.inf
    if min(word_cost, space_cost) >= _GAIN * n:
        return make_leaf(tree, builder, task, plan)
    if word_cost <= space_cost:
        first = tree.nodes[make_node(tree, task, KEYWORD, n_cuts)].first + 1
        for cut in range(n_cuts - 1):
            tree.highs[first + cut] = scratch.words[scratch.ends[cut] - 1]
        tree.highs[first + n_cuts - 1] = LAST_RANK
    else:
        node = make_node(tree, task, SPACE, (n_x + 1) * (n_y + 1))
        tree.nodes[node].n_columns, tree.nodes[node].n_rows = n_x + 1, n_y + 1
        first = tree.nodes[node].first
        for i in range(n_x):
            tree.lines[first + i] = above(scratch.x_lines[i])
        for i in range(n_y):
            tree.lines[first + n_x + i] = above(scratch.y_lines[i])
    return DONE


@kernel
def count_rows(tree: TreeLayout, builder: BuildStacks, task: Any, ranks: Ints) -> int:
    """Find the parts of every entry and count them, until all are counted or the slice ends; DONE or NEED_TARGETS."""
    targets, parts = builder.targets, tree.parts
    while task.cursor < task.n_rows and builder.state[BUDGET] > 0:
        at = builder.state[N_TARGETS]
        end = NEED_ROOM
        if at < targets.size:
            end = parts_below(
                tree, task.node, ranks, builder.stack[task.start + task.cursor], targets, builder.target_ranks, at + 1
            )
        if end == NEED_ROOM:
            return NEED_TARGETS
        targets[at] = end
        for i in range(at + 1, end):
            part = parts[targets[i]]
            part.built += 1
            rank = builder.target_ranks[i]
            if rank != UNRANKED:
                part.low, part.high = min(part.low, rank), max(part.high, rank)
        builder.state[N_TARGETS] = end
        builder.state[BUDGET] -= end - at - 1
        task.cursor += 1
    return DONE


@kernel
def begin_writing(tree: TreeLayout, builder: BuildStacks, task: Any) -> int:
    """Lay out the lists of all parts above the task's own; DONE or NEED_STACK."""
    node = tree.nodes[task.node]
    top = task.start + task.n_rows
    for i in range(node.n_parts + 1):
        builder.fill[i] = top
        top += tree.parts[node.first + i].built
    if top > builder.stack.size:
        return NEED_STACK
    builder.state[N_TARGETS] = 0
    task.phase, task.cursor = _WRITING, 0
    return DONE


@kernel
def write_rows(tree: TreeLayout, builder: BuildStacks, task: Any) -> None:
    """Copy entries to the lists of their parts, until all are copied or the slice ends."""
    first = tree.nodes[task.node].first
    stack, fill = builder.stack, builder.fill
    while task.cursor < task.n_rows and builder.state[BUDGET] > 0:
        at = builder.state[N_TARGETS]
        end = builder.targets[at]
        for i in range(at + 1, end):
            part = builder.targets[i] - first
            stack[fill[part]] = stack[task.start + task.cursor]
            fill[part] += 1
        builder.state[N_TARGETS] = end
        builder.state[BUDGET] -= end - at - 1
        task.cursor += 1


@kernel
def put_task(tree: TreeLayout, builder: BuildStacks, part: int, start: int, n_rows: int) -> Any:
    """Put a task on top of the others: a list whose tree shall hang below `part`; no messages of the sample so far."""
    task = builder.tasks[builder.state[N_TASKS]]
    builder.state[N_TASKS] += 1
    task.part, task.start, task.n_rows = part, start, n_rows
    task.phase, task.node, task.sample_start, task.n_sample = _CHOOSING, NO_NODE, 0, 0
    task.x0, task.y0, task.x1, task.y1 = region_of(tree, part)
    task.ways, task.offset, task.depth, task.copies = BY_WORDS | BY_SPACE, 0, 0, 1.0
    if tree.parts[part].node != NO_NODE:
        node = tree.nodes[tree.parts[part].node]
        task.ways, task.offset, task.depth = node.ways, node.offset, node.depth + 1
        if part == node.first:
            task.ways &= ~(BY_WORDS if node.kind == KEYWORD else BY_SPACE)
        elif node.kind == KEYWORD and tree.parts[part].low == tree.parts[part].high:
            task.offset += 1
    return task


@kernel
def n_below(tree: TreeLayout, node: int) -> int:
    """Entries in all parts of a node together."""
    first, n = tree.nodes[node].first, 0
    for part in range(first, first + tree.nodes[node].n_parts + 1):
        n += tree.parts[part].now
    return n


@kernel
def copies_at(tree: TreeLayout, part: int) -> float:
    """How many copies an entry has on the level of a part, on average, by the weights of the nodes above."""
    copies = 1.0
    while tree.parts[part].node != NO_NODE:
        node = tree.parts[part].node
        part = tree.nodes[node].part
        copies *= max(1.0, n_below(tree, node) / max(1, tree.parts[part].now))
    return copies


@kernel
def parts_reached(
    tree: TreeLayout, node: int, x: float, y: float, words: Ints, eta: int, parts: Ints, etas: Ints
) -> int:
    """Write the parts of a node that a message with these words, of which `eta` are used up, goes on to; how many.

    Paper: [APTREE] section 3.2.3, algorithm 1.
    """
    row = tree.nodes[node]
    first, n = row.first, 0
    if tree.parts[first].now > 0:
        parts[n], etas[n] = first, eta
        n += 1
    if row.kind == SPACE:
        part = first + 1 + cell_at(tree, row, below(x), below(y))
        if tree.parts[part].now > 0:
            parts[n], etas[n] = part, eta
            n += 1
        return n
    last = -1
    for i in range(eta, words.size):
        part = first + 1 + cut_of(tree.highs, first + 1, row.n_parts, words[i])
        if part != last and tree.parts[part].low <= words[i] <= tree.parts[part].high:
            last = part
            parts[n], etas[n] = part, i + (tree.parts[part].low == tree.parts[part].high)
            n += 1
    return n


@kernel
def sample_of_parts(
    tree: TreeLayout, builder: BuildStacks, node: int, first: int, n_sample: int, sample: Sample
) -> int:
    """Lay out the sample messages that reach each part of a node, one part after another; DONE or NEED_SAMPLED.

    Leaves builder.fill at the end of each part's messages.
    """
    n_parts = tree.nodes[node].n_parts + 1
    origin = tree.nodes[node].first
    builder.fill[:n_parts] = 0
    top = first + n_sample
    for turn in range(2):
        for i in range(first, first + n_sample):
            message = builder.messages[i]
            words = sample.words[sample.word_start[message] : sample.word_start[message + 1]]
            n = parts_reached(
                tree, node, sample.xs[message], sample.ys[message], words, builder.etas[i], builder.reached,
                builder.reached_etas,
            )  # fmt: skip
            for j in range(n):
                part = builder.reached[j] - origin
                if turn == 1:
                    builder.messages[builder.fill[part]] = message
                    builder.etas[builder.fill[part]] = builder.reached_etas[j]
                builder.fill[part] += 1
        if turn == 0:
            for part in range(n_parts):
                n = builder.fill[part]
                builder.fill[part] = top
                top += n
            if top > builder.messages.size:
                return NEED_SAMPLED
    return DONE


@kernel
def put_children(tree: TreeLayout, builder: BuildStacks, sample: Sample) -> int:
    """Replace the topmost task, whose lists are written, by those of its parts; DONE, NEED_TASKS or NEED_SAMPLED."""
    top = builder.state[N_TASKS] - 1
    parent = builder.tasks[top]
    node, start, n_sample = parent.node, parent.sample_start, parent.n_sample
    first, n_parts = tree.nodes[node].first, tree.nodes[node].n_parts + 1
    if top + n_parts > builder.tasks.size:
        return NEED_TASKS
    for i in range(n_parts):
        tree.parts[first + i].now = tree.parts[first + i].built
    list_start = parent.start + parent.n_rows
    if sample_of_parts(tree, builder, node, start, n_sample, sample) == NEED_SAMPLED:
        return NEED_SAMPLED
    builder.state[N_TASKS] = top
    builder.state[N_TARGETS] = 0
    sampled, n_rows, copies = start + n_sample, parent.n_rows, parent.copies
    copies *= n_below(tree, node) / n_rows
    for i in range(n_parts):
        n_rows = tree.parts[first + i].built
        if n_rows > 0:
            task = put_task(tree, builder, first + i, list_start, n_rows)
            task.sample_start, task.n_sample, task.copies = sampled, builder.fill[i] - sampled, copies
        sampled = builder.fill[i]
        list_start += n_rows
    return DONE


@kernel
def build(
    tree: TreeLayout,
    builder: BuildStacks,
    ranks: Ints,
    lowest: int,
    plan: Plan,
    sample: Sample,
    scratch: PartitionScratch,
) -> int:
    """Work on the tasks until all are done (DONE), the slice's rows are used up (PAUSED), or room is needed.

    Paper: [APTREE] section 3.3.4, algorithm 4.
    """
    state = builder.state
    while state[N_TASKS] > 0:
        if state[BUDGET] <= 0:
            return PAUSED
        task = builder.tasks[state[N_TASKS] - 1]
        code = DONE
        if task.phase == _CHOOSING:
            code = choose_partition(tree, builder, task, ranks, lowest, plan, sample, scratch)
            if code == DONE and task.node == NO_NODE:
                state[N_TASKS] -= 1
        elif task.phase == _COUNTING:
            code = count_rows(tree, builder, task, ranks)
            if code == DONE and task.cursor == task.n_rows:
                code = begin_writing(tree, builder, task)
        elif task.cursor < task.n_rows:
            write_rows(tree, builder, task)
        else:
            code = put_children(tree, builder, sample)
        if code != DONE:
            return code
    return DONE
