"""Asserts that the index and the subscriptions agree; for tests."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from nearcast.columns.arena import Array
from nearcast.columns.subscription_tables import PointTable
from nearcast.engines.blocks import block_room
from nearcast.engines.topk.dues import Floors, current_floor
from nearcast.engines.topk.groups import find_group
from nearcast.engines.topk.keys import code_of, face_of, rest_of, tilt_of
from nearcast.engines.topk.layout import FACE, HIDDEN_BITS, KEY, MARK, WIDTH, Shape, SubscriptionLayout
from nearcast.engines.topk.postings import copy_posting, place_of, write_posting
from nearcast.engines.topk.skype_index import pool_of


def check_index(index: SubscriptionLayout, shape: Shape, table: PointTable, floors: Floors) -> None:
    """Every word of every subscription is filed once, where it belongs, and no bound is too tight."""
    filed = _check_groups(index)
    layout, idf = table.layout, table.vocabulary.idf
    right = np.zeros(1, dtype=FACE)
    right_posting = pool_of(np.zeros(WIDTH, dtype=np.int32))
    for slot in table.used_slots.tolist():
        row, scale, face = layout.rows[slot], layout.scales[slot], index.faces[slot]
        face_of(right[0], row, scale, current_floor(index.dues, floors, slot), shape.metric)
        if floors.buffers[slot].fades and floors.buffers[slot].floor > 0.0:
            assert index.dues[slot].queued <= index.dues[slot].until, "a floor that is never due"
        assert face == right[0]
        code = code_of(face, slot, shape)
        for at in range(row.term_start, row.term_start + row.n_terms):
            term = int(layout.terms[at])
            group, filed_so = filed.pop((slot, term))
            first, own = find_group(index, term, code, face.alpha)
            assert group == own
            rest = rest_of(layout.terms, layout.counts, row, scale, idf, at)
            write_posting(right_posting, 0, 1, slot, face, rest)
            assert (filed_so == right_posting.ints).all()
            head = index.cells[first]
            assert index.groups[own].tilt <= tilt_of(np.float64(face.alpha))
            assert head.x0 <= face.x <= head.x1, "point outside of its cell"
            assert head.y0 <= face.y <= head.y1, "point outside of its cell"
            assert head.z0 <= face.z <= head.z1, "point outside of its cell"
    assert not filed, "postings of nobody"


def _check_groups(index: SubscriptionLayout) -> dict[tuple[int, int], tuple[int, Array]]:
    """Every posting and its group by subscription and word; all groups are sorted and bounded."""
    filed: dict[tuple[int, int], tuple[int, Array]] = {}
    taken: list[tuple[int, int]] = []
    for term in np.flatnonzero(index.lists["n_groups"]).tolist():
        row = index.lists[term]
        groups = index.groups[row.start : row.start + row.n_groups]
        assert row.n == groups["n"].sum() > 0
        cells = index.cells[row.start : row.start + row.n_groups]
        at = 0
        while at < groups.size:
            own, cell = (array[at : at + cells[at].n_more + 1] for array in (groups, cells))
            assert (cell["code"] == cell["code"][0]).all()
            assert (cell["n_more"] == np.arange(cell.size)[::-1]).all()
            assert (np.diff(own["low"]) > 0).all()
            assert cell[0].key == own["key"].min()
            assert cell[0].tilt == own["tilt"].min()
            at += cell.size
        for number, group in enumerate(groups, int(row.start)):
            postings = np.zeros((group.n, WIDTH), dtype=np.int32)
            for position in range(group.n):
                place, stride = place_of(int(group.start), int(block_room(group.room)), position)
                copy_posting(index.postings.ints, place, stride, postings[position], 0, 1)
            keys = postings.view(np.float32)[:, KEY]
            assert (np.diff(keys[np.isfinite(keys)]) >= 0).all()
            assert group.key == keys.min(initial=np.inf)
            assert group.n == 0 or group.key == keys[0]
            if group.room >= 0:
                taken.append((int(group.start), int(group.start) + int(block_room(group.room))))
            for posting in postings:
                pair = (int(posting[MARK]) >> HIDDEN_BITS, term)
                assert pair not in filed, "a word is filed twice"
                filed[pair] = (number, posting)
    taken.sort()
    assert all(end <= start for (_, end), (start, _) in pairwise(taken)), "groups overlap"
    return filed
