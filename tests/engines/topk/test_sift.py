"""Strips of postings: they are kept and moved whole, and nobody is sifted out who reaches the floor."""

from __future__ import annotations

import math
import os
import random

import numpy as np
import pytest

from nearcast.engines.blocks import block_class, block_room
from nearcast.engines.topk.keys import Rest, bit_number, bit_of, floor_of, point_of
from nearcast.engines.topk.layout import FACE, GROUP, KEY, LANES, MANY, N_BITS, PADDING, WHOLE, WIDTH, PostingPool
from nearcast.engines.topk.match import MessagePoint, MessageWord, reaches, wants
from nearcast.engines.topk.postings import move_group, move_posting, place_of, write_posting
from nearcast.engines.topk.sift import place_in_lanes, sift_strip, text_in_lanes
from nearcast.engines.topk.skype_index import pool_of
from nearcast.space.distance import EUCLIDEAN, HAVERSINE, distance, ssim

N = 300 if os.environ.get("NUMBA_DISABLE_JIT", "0") == "0" else 20
_BLUR = 4e-7


def pool(n: int) -> PostingPool:
    return pool_of(np.zeros(n * WIDTH + PADDING, dtype=np.int32))


def posting_at(given: PostingPool, start: int, room: int, position: int) -> list[int]:
    at, stride = place_of(np.int64(start), np.int64(room), np.int64(position))
    return given.ints[int(at) : int(at) + WIDTH * int(stride) : int(stride)][:WIDTH].tolist()


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 33, 70])
def test_a_group_keeps_its_postings_wherever_it_goes(n: int) -> None:
    """Blocks of any size hold all fields of all postings apart, and a larger block takes them over."""
    size_class = block_class(n)
    room = int(block_room(size_class))
    given = pool(400)
    group = np.zeros(1, dtype=GROUP)[0]
    group.start, group.n, group.room = 3, n, size_class
    expected = []
    for position in range(n):
        face = np.zeros(1, dtype=FACE)[0]
        face.x, face.y, face.z, face.floor, face.alpha = position, -position, 0.5, 0.25, 0.125
        at, stride = place_of(np.int64(3), np.int64(room), np.int64(position))
        write_posting(given, int(at), int(stride), position, face, Rest(0.5, 0.5, -(2**31) + position & 0xFFFFFFFF, 9))
        expected.append(posting_at(given, 3, room, position))
    assert [posting_at(given, 3, room, position) for position in range(n)] == expected
    assert not given.ints[: 3 * WIDTH].any()
    assert not given.ints[(3 + room) * WIDTH :].any()
    larger = block_class(room + 1)
    move_group(given, group, 200, larger)
    assert (int(group.start), int(group.room)) == (200, larger)
    assert [posting_at(given, 200, int(block_room(larger)), position) for position in range(n)] == expected
    move_posting(given, 200, int(block_room(larger)), n - 1, n)
    assert posting_at(given, 200, int(block_room(larger)), n) == expected[-1]


@pytest.mark.parametrize(
    ("metric", "reach", "max_distance"),
    [
        (EUCLIDEAN, 1.0, 1.0),
        (EUCLIDEAN, 1e6, 1e3),
        (EUCLIDEAN, 1e-200, 1e-200),
        (EUCLIDEAN, 1e37, 1e36),
        (EUCLIDEAN, 1e37, 1e300),
        (EUCLIDEAN, 1.0, 1e-310),
        (HAVERSINE, 90.0, 2e7),
        (HAVERSINE, 90.0, 5e3),
        (HAVERSINE, 90.0, 1e-300),
        (HAVERSINE, 1e-4, 10.0),
    ],
)
def test_nobody_is_sifted_out_who_reaches_the_floor(metric: int, reach: float, max_distance: float) -> None:
    """Whoever's floor is the very score that place and text allow is found, and whoever is found for sure wants it."""
    choice = random.Random(int(metric + max_distance))
    n_found = n_wanting = 0
    for _ in range(N):
        n, unit = choice.randint(1, LANES), choice.random()
        tails = np.sort(np.array([0.0] + [choice.random() for _ in range(MANY)])) / WHOLE
        bits = choice.getrandbits(32)
        x, y = choice.uniform(-reach, reach), choice.uniform(-reach, reach)
        point = np.array(point_of(metric, x, y))
        blur = _BLUR * float(np.abs(point).sum())
        place = place_in_lanes(metric, *point.tolist(), blur, max_distance)
        text = text_in_lanes(unit / WHOLE, bits, tails)
        message = MessagePoint(*point.tolist(), blur, metric, max_distance, place)
        word = MessageWord(0, unit / WHOLE, bits, text)
        given, right = pool(n), []
        for position in range(n):
            near_by = choice.choice([0.0, 1e-7, 1e-3, 1.0])
            own_x, own_y = (
                min(max(value + near_by * choice.uniform(-reach, reach), -reach), reach) for value in (x, y)
            )
            terms = [choice.randrange(1000) for _ in range(choice.randrange(4))]
            own, after = choice.random(), choice.random()
            n_shared = sum(bits & bit_of(term) != 0 for term in set(terms))
            alpha = choice.choice([0.0, 1.0, choice.random()])
            similar = ssim(distance(metric, own_x, own_y, x, y), max_distance)
            score = alpha * similar + (1.0 - alpha) * (own * unit + after * float(tails[min(n_shared, MANY)]) * WHOLE)
            floor = score if choice.random() < 0.7 else score * choice.uniform(0.9, 1.2)
            face = np.zeros(1, dtype=FACE)[0]
            face.x, face.y, face.z = (np.float32(value) for value in point_of(metric, own_x, own_y))
            face.floor, face.alpha = floor_of(floor), np.float32(alpha)
            all_bits = int(np.bitwise_or.reduce([int(bit_of(term)) for term in terms] or [0]))
            n_hidden = len(set(terms)) - all_bits.bit_count()
            at, stride = place_of(np.int64(0), np.int64(n), np.int64(position))
            write_posting(given, int(at), int(stride), position, face, Rest(own, after, all_bits, n_hidden))
            wanting = wants(given, int(at), int(stride), message, word, tails) >= 0.0
            assert wanting or score < floor
            right.append((score >= floor, wanting))
        found, n_sought = sift_strip(given, 0, n, n, place, text, np.float32(np.inf))
        assert n_sought == n
        for position, (reached, wanting) in enumerate(right):
            is_found = bool(found >> position & 1)
            assert is_found or not (reached or wanting)
            n_found += is_found
            n_wanting += wanting
        keys = given.lanes[KEY * n : KEY * n + n]
        assert sift_strip(given, 0, n, n, place, text, keys[0])[1] == np.count_nonzero(keys <= keys[0])
    assert 0 < n_wanting <= n_found <= 2 * n_wanting


def test_the_words_that_may_be_shared_exclude_nobody_who_reaches_the_floor() -> None:
    """Of those that may have as many words in common, the ones that fail have others than the bits say."""
    choice = random.Random(3)
    text = text_in_lanes(0.0, 0, np.zeros(MANY + 1))
    n_kept = n_true = 0
    for _ in range(20 * N):
        words = choice.sample(range(200), choice.randint(1, 12))  # of the message, after the word at hand
        weights = {term: choice.random() for term in words}
        bits, squares = 0, np.zeros(N_BITS)
        for term in words:
            bits |= int(bit_of(term))
            squares[bit_number(term)] += weights[term] ** 2
        own = {term: choice.random() for term in choice.sample(range(200), choice.randrange(5))}
        for term in choice.sample(words, min(len(words), choice.randrange(3))):
            own[term] = choice.random()
        unit, share = choice.random(), choice.random()
        after = math.sqrt(sum(weight * weight for weight in own.values()))
        alpha, near = choice.choice([0.0, choice.random()]), choice.random()
        exact = share * unit + sum(weight * weights.get(term, 0.0) for term, weight in own.items())
        score = alpha * near + (1.0 - alpha) * exact
        face = np.zeros(1, dtype=FACE)[0]
        face.floor, face.alpha = floor_of(score * choice.choice([1.0, 1.0, 1.1])), np.float32(alpha)
        all_bits = int(np.bitwise_or.reduce([int(bit_of(term)) for term in own] or [0]))
        given = pool(1)
        write_posting(given, 0, 1, 0, face, Rest(share, min(after, 1.0), all_bits, 0))
        if after > 1.0:
            continue
        kept = bool(reaches(given, 0, 1, near, MessageWord(0, unit / WHOLE, bits, text), squares))
        assert kept or face.floor > floor_of(score)
        n_kept, n_true = n_kept + kept, n_true + (face.floor <= floor_of(score))
    assert 0 < n_true <= n_kept < 2 * n_true
