"""The index against the one that tries every message, and that one against plain Python."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator

import numba
import numpy as np
import pytest
from definitions import TOLERANCE, Ground, Span
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.held import HeldCall
from nearcast.window.index import index as index_module
from nearcast.window.index.brute_force import BruteForceIndex
from nearcast.window.index.candidates import EVERY
from nearcast.window.index.index import MessageIndex
from nearcast.window.index.query import ALL, ANY, BY_SCORE, Moment, Question
from window.stored import ANY_FIELDS, FOR_EVER, IDF, PLANE, SPACES, Stored, place, zipf_words

JIT = not numba.config.DISABLE_JIT
FOREVER = 2**62
HALF_LIVES = (1, 3, 40, 1000, 10**6, 10**9)
ALPHAS = (0.0, 0.1, 0.5, 0.9, 1.0)


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of all sizes from few messages."""
    monkeypatch.setattr(index_module, "RECENT_ROOM", 40)
    monkeypatch.setattr(index_module, "MAX_MEMBERS", 3000)


def _questions(stored: Stored, n: int) -> Iterator[tuple[Question, np.ndarray, np.ndarray, Moment]]:
    """Questions of all three modes, as of now and as of earlier."""
    rng = stored.rng
    for _ in range(n):
        terms = zipf_words(rng, int(rng.integers(1, 5)))
        weights = rng.integers(1, 3, terms.size) * IDF[terms]
        norm = math.sqrt(sum(w * w for w in weights))
        x, y = place(rng, stored.space)
        k = int(rng.choice([1, 2, 5, 20, 2**31 - 1]))
        last = stored.last - int(rng.choice([0, 0, 3, 50]))
        moment = stored.moment(last, int(rng.choice([0, 0, 0, max(0, last - 60), last])))
        for mode in (BY_SCORE, ALL, ANY):
            alpha, length = float(rng.choice(ALPHAS)), norm if mode == BY_SCORE else 1.0
            yield Question(mode, x, y, k, alpha, length, *ANY_FIELDS, FOR_EVER), terms, weights, moment


def _areas(stored: Stored, n: int) -> Iterator[tuple[float, float, float, float]]:
    for _ in range(n):
        (x0, y0), (x1, y1) = place(stored.rng, stored.space), place(stored.rng, stored.space)
        if stored.space.metric == "euclidean":
            x0, x1 = min(x0, x1), max(x0, x1)
        yield x0, min(y0, y1), x1, max(y0, y1)
        yield -math.inf, min(y0, y1), math.inf, math.inf


def _search(index: MessageIndex | BruteForceIndex, stored: Stored, question: Question, terms, weights, moment):  # type: ignore[no-untyped-def]
    if question.mode == BY_SCORE:
        return index.topk(stored.layout, IDF, question, terms, weights, moment)
    return index.nearest(stored.layout, IDF, question, terms, moment)


def _agree(stored: Stored, fast: MessageIndex, slow: BruteForceIndex, n: int) -> None:
    """Both indexes give the same answers, to the last bit."""
    for at, (question, terms, weights, moment) in enumerate(_questions(stored, n)):
        fading = question._replace(half_life=HALF_LIVES[at % len(HALF_LIVES)])
        for asked in (question, fading) if question.mode == BY_SCORE else (question,):
            ours, theirs = (_search(index, stored, asked, terms, weights, moment) for index in (fast, slow))
            assert ours[0].tolist() == theirs[0].tolist()
            assert ours[1].tolist() == theirs[1].tolist()
    for area in _areas(stored, n):
        for term in (EVERY, 0, 30):
            moment = stored.moment(since=int(stored.rng.choice([0, max(0, stored.last - 50)])))
            found = [sorted(index.candidates(stored.layout, term, area, moment).tolist()) for index in (fast, slow)]
            assert found[0] == found[1]


def _stream(stored: Stored, sizes: list[int], n_questions: int) -> tuple[MessageIndex, BruteForceIndex]:
    """Batches of arrivals with the clock going on and the dead released, questions in between."""
    fast, slow = MessageIndex(stored.space), BruteForceIndex(stored.space)
    for size in sizes:
        slots = stored.arrive(size)
        for index in (fast, slow):
            index.add(stored.layout, IDF, slots)
        _agree(stored, fast, slow, n_questions)
        stored.clock += int(stored.rng.integers(0, 3))
        stored.expire()
        for index in (fast, slow):
            index.prune(stored.layout, stored.last, stored.clock, stored.count)
        _agree(stored, fast, slow, n_questions)
        fast.check(stored.layout)
        slow.check(stored.layout)
    return fast, slow


@settings(deadline=None, max_examples=25 if JIT else 4)
@given(
    seed=st.integers(0, 2**32),
    space=st.sampled_from(SPACES),
    count=st.sampled_from([1, 30, 200, 700, FOREVER]),
    lifetime=st.sampled_from([0, 1, 5, 20]),
    sizes=st.lists(st.sampled_from([1, 7, 30, 41, 130, 300]), min_size=1, max_size=10),
)
def test_gives_the_answers_of_the_scan(seed, space, count, lifetime, sizes):  # type: ignore[no-untyped-def]
    _stream(Stored(seed, space, count, lifetime), sizes, 3)


@pytest.mark.skipif(not JIT, reason="too many messages for plain Python")
@pytest.mark.parametrize(
    ("space", "count", "lifetime"),
    [(SPACES[0], FOREVER, 0), (SPACES[1], 4000, 0), (SPACES[2], FOREVER, 12), (SPACES[1], 5000, 30)],
)
def test_gives_the_answers_of_the_scan_on_deep_segments(space, count, lifetime):  # type: ignore[no-untyped-def]
    _stream(Stored(7, space, count, lifetime), [2500, 30, 900, 2700, 1, 500, 1200], 20)


@pytest.mark.parametrize("lifetime", [0, 15])
@pytest.mark.parametrize("space", SPACES)
def test_many_questions_are_asked_of_one_segment(space, lifetime, monkeypatch):  # type: ignore[no-untyped-def]
    monkeypatch.setattr(index_module, "MANY_LIVE", 1)
    stored = Stored(5, space, 2000 if JIT else 300, lifetime)
    fast, slow = _stream(stored, [1500, 600, 700] if JIT else [250, 90], 1)
    assert fast.for_many(len(stored) // 30, stored, IDF) is fast
    one = fast.for_many(len(stored), stored, IDF)
    assert one.stats()["segments"] == 1 < fast.stats()["segments"]
    _agree(stored, one, slow, 30 if JIT else 5)
    one.check(stored.layout)
    before, asked = fast.stats(), one.stats()
    for _ in range(2):
        fast.credit(one)
        fast.credit(fast)
        for name in ("searches", "nodes_visited", "builds", "members_built"):
            assert fast.stats()[name] == before[name] + asked[name] > before[name]


def test_the_one_segment_is_kept_until_the_next_change(monkeypatch):  # type: ignore[no-untyped-def]
    monkeypatch.setattr(index_module, "MANY_LIVE", 1)
    stored = Stored(5, PLANE, 300, 0)
    fast, _ = _stream(stored, [250, 90], 1)
    alone = fast.nbytes
    one = fast.for_many(len(stored), stored, IDF)
    assert fast.nbytes == alone + one.nbytes
    assert fast.for_many(1, stored, IDF) is one
    fast.prune(stored.layout, stored.last, 0, 300)
    assert fast.nbytes == alone
    assert fast.for_many(1, stored, IDF) is fast
    one = fast.for_many(len(stored), stored, IDF)
    fast.add(stored.layout, IDF, np.zeros(0, dtype=np.int32))
    assert fast.for_many(len(stored), stored, IDF) is not one
    fast.load(fast.state())
    assert fast.for_many(1, stored, IDF) is fast


def _held(value: object, path: str = "") -> Iterator[tuple[str, bytes]]:
    """Every array and number that an object holds, by where it is, but for what calls of kernels keep."""
    if isinstance(value, HeldCall):
        return
    if isinstance(value, np.ndarray | int | float):
        yield path, np.asarray(value).tobytes()
    elif isinstance(value, tuple | list):
        for n, each in enumerate(value):
            yield from _held(each, f"{path}[{n}]")
    else:
        inner = value if isinstance(value, dict) else getattr(value, "__dict__", {})
        for name, each in inner.items():
            yield from _held(each, f"{path}.{name}")


def test_questions_to_a_follower_leave_the_index_alone(monkeypatch):  # type: ignore[no-untyped-def]
    """Threads ask both at the same time: whatever a question writes must be the follower's own."""
    monkeypatch.setattr(index_module, "MANY_LIVE", 100)
    stored = Stored(5, PLANE, 400, 0)
    index, slow = _stream(stored, [300, 30, 200], 2)
    follower = MessageIndex(PLANE)
    follower.follow(index)
    index.for_many(1000, stored, IDF)
    before = dict(_held(index))
    assert len(before) > 30
    follower.follow(index)
    for ask in (follower, follower.for_many(1000, stored, IDF)):
        assert ask is not index
        _agree(stored, ask, slow, 8)
    assert dict(_held(index)) == before
    index.credit(follower)
    assert index.stats()["searches"] > 0


def _straight(question: Question, terms, weights, moment: Moment, stored: Stored) -> dict[int, Span]:  # type: ignore[no-untyped-def]
    """Score or distance of every answer by slot, in plain Python."""
    asked = dict(zip(terms.tolist(), weights.tolist(), strict=True))
    ground = Ground(stored.space.bounds, stored.space.metric)
    answers = {}
    for slot in stored.alive(moment):
        words = stored.words(slot)
        shared = asked.keys() & words.keys()
        if not shared or (question.mode == ALL and len(shared) < len(asked)):
            continue
        row = stored.layout.rows[slot]
        far = ground.distance(question.x, question.y, float(row["x"]), float(row["y"]))
        answers[slot] = far
        if question.mode == BY_SCORE:
            product = sum(asked[t] * words[t] * IDF[t] for t in shared)
            cosine = product / (question.norm * math.sqrt(sum((words[t] * IDF[t]) ** 2 for t in words)))
            answers[slot] = Span(*(question.alpha * near + (1 - question.alpha) * cosine for near in ground.ssim(far)))
    return answers


@pytest.mark.parametrize("space", SPACES)
def test_the_scan_gives_the_answers_of_the_definitions(space):  # type: ignore[no-untyped-def]
    stored = Stored(3, space, 90, 9)
    scan = BruteForceIndex(space)
    for size in (60, 50):
        slots = stored.arrive(size)
        scan.add(stored.layout, IDF, slots)
        stored.clock += 2
        for question, terms, weights, moment in _questions(stored, 20):
            found, scores = _search(scan, stored, question, terms, weights, moment)
            expected = _straight(question, terms, weights, moment, stored)
            assert len(found) == len(set(found.tolist())) == min(question.k, len(expected))
            sign = -1 if question.mode == BY_SCORE else 1
            keys = []
            for slot, score in zip(found.tolist(), scores.tolist(), strict=True):
                slack = abs(score) * TOLERANCE
                assert expected[slot].low - slack <= score <= expected[slot].high + slack
                keys.append((sign * score, -int(stored.layout.rows["sequence"][slot])))
            assert keys == sorted(keys)
            for slot in expected.keys() - set(found.tolist()):
                best = min(sign * expected[slot].low, sign * expected[slot].high)
                worst = max(sign * expected[int(found[-1])].low, sign * expected[int(found[-1])].high)
                assert best >= worst - abs(worst) * TOLERANCE or best == pytest.approx(worst, rel=1e-6)
        stored.expire()


def test_a_slot_that_is_used_again_holds_another_message():
    stored = Stored(1, PLANE, 5, 0)
    fast, slow = _stream(stored, [4] * 40, 1)
    assert stored.layout.rows.size <= 12
    assert fast.stats()["members"] <= 80
    _agree(stored, fast, slow, 20)


def test_drops_what_is_dead_and_thins_out_what_is_half_dead():
    stored = Stored(5, PLANE, 100, 0)
    fast, _ = _stream(stored, [50] * 30, 1)
    assert fast.stats()["members"] + fast.stats()["recent"] <= 250
    stored.clock, stored.count = 10, 0
    fast.prune(stored.layout, stored.last, stored.clock, 0)
    assert fast.stats()["segments"] == 0


def test_merges_segments_that_expiries_have_thinned_out():
    stored = Stored(11, PLANE, FOREVER, 0)
    fast = MessageIndex(PLANE)
    for _ in range(40):
        slots = stored.arrive(60)
        stored.layout.rows["expires_at"][slots[2:]] = stored.clock + 1
        fast.add(stored.layout, IDF, slots)
        stored.clock += 1
        stored.expire()
        fast.prune(stored.layout, stored.last, stored.clock, stored.count)
        fast.check(stored.layout)
    assert fast.stats()["segments"] <= 6
    assert fast.stats()["members"] + fast.stats()["recent"] <= 300


def test_goes_on_from_a_stored_state():
    stored = Stored(9, PLANE, 400, 8)
    fast, slow = _stream(stored, [300, 41, 30], 1)
    restored = MessageIndex(PLANE)
    state = {}
    for name, value in fast.state().items():
        file = io.BytesIO()
        np.save(file, value)
        file.seek(0)
        state[name] = np.load(file).view(value.dtype)  # a file forgets alignment
    restored.load(state)
    restored.check(stored.layout)
    _agree(stored, restored, slow, 10)
    for size in (1, 200, 60):
        slots = stored.arrive(size)
        for index in (restored, slow):
            index.add(stored.layout, IDF, slots)
        stored.clock += 3
        stored.expire()
        for index in (restored, slow):
            index.prune(stored.layout, stored.last, stored.clock, stored.count)
        restored.check(stored.layout)
        _agree(stored, restored, slow, 10)


def test_a_rebuild_knows_the_new_weights():
    stored = Stored(13, PLANE, FOREVER, 0)
    fast, slow = _stream(stored, [300], 1)
    heavier = IDF * np.where(np.arange(IDF.size) % 3 == 0, 4.0, 1.0)
    rows = stored.layout.rows
    slots = np.argsort(rows["sequence"], kind="stable").astype(np.int32)
    for slot in slots.tolist():
        rows["norm"][slot] = math.sqrt(sum((count * heavier[term]) ** 2 for term, count in stored.words(slot).items()))
    for index in (fast, slow):
        index.rebuild(stored.layout, heavier, slots)
    fast.check(stored.layout)
    terms = np.array([0, 3, 7], dtype=np.int32)
    question = Question(BY_SCORE, 4.0, 4.0, 20, 0.2, float(np.sqrt((heavier[terms] ** 2).sum())), *ANY_FIELDS, FOR_EVER)
    found = [
        index.topk(stored.layout, heavier, question, terms, heavier[terms], stored.moment()) for index in (fast, slow)
    ]
    assert found[0][0].tolist() == found[1][0].tolist()
    assert found[0][1].tolist() == found[1][1].tolist()


def test_searches_touch_few_nodes_of_a_frequent_word():
    stored = Stored(17, PLANE, FOREVER, 0)
    fast, _ = _stream(stored, [2600 if JIT else 300], 0)
    before = fast.stats()
    fast.nearest(
        stored.layout,
        IDF,
        Question(ANY, 8.0, 8.0, 3, 0.0, 1.0, *ANY_FIELDS, FOR_EVER),
        np.array([0], dtype=np.int32),
        stored.moment(),
    )
    after = fast.stats()
    assert after["searches"] - before["searches"] == 1
    assert after["nodes_visited"] - before["nodes_visited"] <= 8
    assert after["postings_touched"] - before["postings_touched"] <= 400
    assert after["bytes"] == fast.nbytes > 0
