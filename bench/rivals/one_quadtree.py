"""`TopK` by Skype as its paper has it: one quadtree for all words, with an inverted file in each of its cells.

Everything else is the engine's own code: keys, groups, postings, how a message reads them, and the buffers. Only where
lists are cut differs. The engine cuts each word for itself, into cells of about as many postings; here the cells are
those of one tree over all subscriptions, so that a frequent word has long lists and a rare one many short ones. Cells
in which a word does not occur cost nothing, which is kinder than the paper.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Floats, Ints, Longs
from nearcast.columns.subscription_tables import PointLayout
from nearcast.engines.blocks import N_HEADS, USED, block_class, block_room, take_block
from nearcast.engines.contract import Changes
from nearcast.engines.topk.build import cut_cells, cut_groups
from nearcast.engines.topk.engine import TopKSkype
from nearcast.engines.topk.groups import clear_group, file_posting
from nearcast.engines.topk.keys import code_of, rest_of
from nearcast.engines.topk.layout import CELL, GROUP, PADDING, WIDTH, Shape, SubscriptionLayout
from nearcast.engines.topk.skype_index import links_of, pool_of
from nearcast.jit import kernel
from nearcast.window.live import Steps


class Rows(NamedTuple):
    """A row for each word of each subscription."""

    slots: Ints  # int32[n]
    places: Longs  # int64[n]: the word, among the terms of the table
    terms: Longs  # int64[n]
    codes: Longs  # int64[n]: where the subscription lies along the curve
    alphas: Floats  # float64[n]


class Cut(NamedTuple):
    """The groups of all words, one after another."""

    terms: Longs  # int64[n]
    codes: Longs  # int64[n]: that of the cell
    lows: Floats  # float64[n]: the least alpha
    sizes: Longs  # int64[n]: postings


@kernel
def write_rows(index: SubscriptionLayout, subscriptions: Any, slots: Ints, shape: Shape, rows: Rows) -> None:
    """Write a row for each word of these subscriptions."""
    n = 0
    for slot in slots:
        row, face = subscriptions.rows[slot], index.faces[slot]
        code = code_of(face, slot, shape)
        for at in range(row.term_start, row.term_start + row.n_terms):
            rows.slots[n], rows.places[n], rows.terms[n] = slot, at, subscriptions.terms[at]
            rows.codes[n], rows.alphas[n] = code, face.alpha
            n += 1


@kernel
def cut_words(rows: Rows, cells: Longs, firsts: Longs, shape: Shape, cut: Cut) -> int:
    """Cut the rows of each word in each cell, sorted by alpha, into groups; returns the number of groups.

    Paper: [SKYPE] section 5.1, a leaf of the quadtree with its inverted file; section 5.3.1, the alpha-partition.
    """
    n = start = 0
    while start < rows.terms.size:
        end = start
        while end < rows.terms.size and rows.terms[end] == rows.terms[start] and cells[end] == cells[start]:
            end += 1
        n_groups = cut_groups(rows.alphas[start:end], shape, cut.lows[n:])
        at = start
        for group in range(n, n + n_groups):
            cut.terms[group], cut.codes[group], cut.sizes[group] = rows.terms[start], firsts[cells[start]], 0
            while at < end and (group == n + n_groups - 1 or rows.alphas[at] < cut.lows[group + 1]):
                cut.sizes[group] += 1
                at += 1
        n += n_groups
        start = end
    return n


@kernel
def lay_out(index: SubscriptionLayout, cut: Cut) -> None:
    """Make all groups, empty, each with room for its postings."""
    start = 0
    while start < cut.terms.size:
        end = start
        while end < cut.terms.size and cut.terms[end] == cut.terms[start]:
            end += 1
        row = index.lists[cut.terms[start]]
        row.start = take_block(index.group_blocks, index.groups["start"], block_class(end - start))
        row.n_groups, row.n = end - start, 0
        for at in range(end - 1, start - 1, -1):
            own = row.start + at - start
            clear_group(index, own, cut.codes[at], cut.lows[at])
            if at + 1 < end and cut.codes[at + 1] == cut.codes[at]:
                index.cells[own].n_more = index.cells[own + 1].n_more + 1
            index.groups[own].room = block_class(cut.sizes[at])
            links = index.links["number_0"]
            index.groups[own].start = take_block(index.posting_blocks, links, index.groups[own].room)
            row.built += cut.sizes[at]
        start = end


@kernel
def file_rows(index: SubscriptionLayout, subscriptions: Any, idf: Floats, rows: Rows) -> None:
    """File every row in its group."""
    for i in range(rows.slots.size):
        slot = rows.slots[i]
        row, scale = subscriptions.rows[slot], subscriptions.scales[slot]
        rest = rest_of(subscriptions.terms, subscriptions.counts, row, scale, idf, rows.places[i])
        file_posting(index, slot, rows.terms[i], rows.codes[i], rest)


class OneQuadtree(TopKSkype):
    """`TopK` by Skype over one quadtree; all is cut again when subscriptions come, go or move."""

    name = "one_quadtree"
    _cut = False

    def insert(self, slots: Ints) -> None:
        super().insert(slots)
        self._cut = False

    def remove(self, slots: Ints) -> None:
        super().remove(slots)
        self._cut = False

    def reweighed(self) -> None:
        super().reweighed()
        self._cut = False

    def fill(self, slots: Ints) -> Changes:
        self._cut = False
        return super().fill(slots)

    def publish(self, steps: Steps) -> Changes:
        if not self._cut and len(self.table):
            self._cut_alike(self.table.layout, self.table.used_slots)
            self._cut = True
        return super().publish(steps)

    def _cut_alike(self, subscriptions: PointLayout, slots: Ints) -> None:
        """File everybody again, in the cells of one tree."""
        index, shape = self.index.layout, self.index.shape
        n = int(subscriptions.rows["n_terms"][slots].sum())
        rows = Rows(*(np.zeros(n, dtype) for dtype in (np.int32, np.int64, np.int64, np.int64, np.float64)))
        write_rows(index, subscriptions, slots, shape, rows)
        starts, firsts = np.zeros(slots.size + 1, np.int64), np.zeros(slots.size + 1, np.int64)
        _, first = np.unique(rows.slots, return_index=True)
        n_cells = cut_cells(np.sort(rows.codes[first]), shape, starts, firsts)
        cells = np.searchsorted(firsts[:n_cells], rows.codes, "right") - 1
        order = np.lexsort((rows.alphas, cells, rows.terms))
        rows, cells = Rows(*(column[order] for column in rows)), cells[order]
        cut = Cut(*(np.zeros(n + shape.groups, dtype) for dtype in (np.int64, np.int64, np.float64, np.int64)))
        n_groups = cut_words(rows, cells, firsts, shape, cut)
        cut = Cut(*(column[:n_groups] for column in cut))
        own, sizes = np.unique(cut.terms, return_counts=True)
        n_rows = sum(int(block_room(block_class(size))) for size in sizes.tolist())
        n_postings = sum(int(block_room(block_class(size))) for size in cut.sizes.tolist())
        ints = np.zeros(n_postings * WIDTH + PADDING, np.int32)
        lists = index.lists.copy()
        lists[:] = np.zeros(1, lists.dtype)
        self.index.layout = index._replace(
            groups=np.zeros(n_rows, GROUP), cells=np.zeros(n_rows, CELL), group_blocks=np.zeros(N_HEADS, np.int64),
            postings=pool_of(ints), posting_blocks=np.zeros(N_HEADS, np.int64), links=links_of(ints), lists=lists,
        )  # fmt: skip
        lay_out(self.index.layout, cut)
        file_rows(self.index.layout, subscriptions, self.context.vocabulary.idf, rows)
        assert self.index.layout.posting_blocks[USED] == n_postings, "every posting is in the room made for it"
        assert (self.index.layout.lists["n"][own] > 0).all()
