"""Phrases and prefixes in use: words in their order go in, and which of these patterns the words hold comes out.

A pattern is a term like a word's, under a key that no word has (`model.words`). A message never stores it. Which
patterns it holds is found when that is asked, from its words: every word has a list of the prefixes that it starts
with, and phrases are ways from word to word. So a pattern that is new holds for messages that were there before it,
and what nobody asks for costs nothing. All of this follows from the keys alone: a snapshot holds nothing of it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.jit import kernel
from nearcast.model.words import PHRASE, PREFIX
from nearcast.text.key_kernels import Numbers
from nearcast.text.key_table import Keys
from nearcast.text.strings import Bytes, Starts

NOTHING = -1
_WORD, _PREFIX, _PHRASE = 0, ord(PREFIX), ord(PHRASE)
_SPACE = ord(" ")  # between the words of a phrase
LEAST_STEPS = 64  # room for steps
LEAST_LINKS = 4096  # links not worth being made again
N_STATES, N_STEPS = range(2)  # positions in `counts`

Enter = Callable[[Bytes, Starts], Numbers]


class PatternsLayout(NamedTuple):
    """Which patterns words lead to; the first and third are empty while there are none."""

    heads: Numbers  # int32[n_terms]: the first link of each word, or NOTHING
    links: Numbers  # int32[n_links, 2]: a prefix that the word starts with, and the next link or NOTHING
    firsts: Numbers  # int32[n_terms]: the state that a word leads to when a phrase begins with it, or NOTHING
    steps: Starts  # int64[power of two]: state << 32 | word, or NOTHING
    states: Numbers  # int32[n_steps]: where each step leads
    ends: Numbers  # int32[n_states]: the phrase that is complete there, or NOTHING
    counts: Starts  # int64[2]: states and steps in use


@kernel
def place_of_step(steps: Starts, state: Any, word: Any) -> Any:
    """Where a step is filed, or would be."""
    key = np.int64(state) << 32 | word
    mixed = np.int64(state) * 2654435761 ^ np.int64(word) * 2246822519
    at = (mixed ^ mixed >> 17) & (steps.size - 1)
    while steps[at] != NOTHING and steps[at] != key:
        at = (at + 1) & (steps.size - 1)
    return at


@kernel
def lay_phrases(patterns: PatternsLayout, phrases: Numbers, words: Numbers, starts: Starts) -> None:
    """Lay the ways of phrases from word to word; there is room."""
    firsts, steps, states, ends, counts = (
        patterns.firsts,
        patterns.steps,
        patterns.states,
        patterns.ends,
        patterns.counts,
    )
    for i in range(phrases.size):
        state = np.int64(firsts[words[starts[i]]])
        if state == NOTHING:
            state = counts[N_STATES]
            counts[N_STATES] += 1
            firsts[words[starts[i]]] = state
        for j in range(starts[i] + 1, starts[i + 1]):
            at = place_of_step(steps, state, words[j])
            if steps[at] == NOTHING:
                steps[at] = np.int64(state) << 32 | words[j]
                states[at] = counts[N_STATES]
                counts[N_STATES] += 1
                counts[N_STEPS] += 1
            state = np.int64(states[at])
        ends[state] = phrases[i]


@kernel
def find_patterns(
    patterns: PatternsLayout, words: Numbers, surfaces: Numbers, start: Any, n: Any, dense: Any, found: Numbers
) -> Any:
    """Write every pattern that words[start:start + n] hold, once; returns how many.

    Words that have no order, for which there are no phrases, are given by a negative `n`. `surfaces` are what words
    were before they were stemmed, which prefixes look at.
    dense[pattern] is 0 before and 1 after. `found` has room for all patterns that there are.
    """
    heads, links, firsts, ends = patterns.heads, patterns.links, patterns.firsts, patterns.ends
    n_found, ordered, end = 0, n > 0, start + abs(n)
    for i in range(start, end):
        link = heads[surfaces[i]]
        while link != NOTHING:
            pattern = links[link, 0]
            if dense[pattern] == 0.0:
                dense[pattern] = 1.0
                found[n_found] = pattern
                n_found += 1
            link = links[link, 1]
        state, following = firsts[words[i]] if ordered else np.int32(NOTHING), i + 1
        while state != NOTHING:
            pattern = ends[state]
            if pattern != NOTHING and dense[pattern] == 0.0:
                dense[pattern] = 1.0
                found[n_found] = pattern
                n_found += 1
            if following == end:
                break
            at = place_of_step(patterns.steps, state, words[following])
            state = patterns.states[at] if patterns.steps[at] != NOTHING else np.int32(NOTHING)
            following += 1
    return n_found


class NewPatterns:
    """Patterns that came since somebody asked last."""

    def __init__(self) -> None:
        self.came: list[Numbers] = []

    def take(self) -> Numbers:
        """Those that came since the last call."""
        new, self.came = np.concatenate([np.zeros(0, np.int32), *self.came]), []
        return new


class Patterns:
    """The phrases and prefixes of a vocabulary.

    `enter` gives the terms of words; whoever adds and frees keys must say so.
    """

    def __init__(self, keys: Keys, enter: Enter) -> None:
        self._keys = keys
        self._enter = enter
        self._followers: weakref.WeakSet[NewPatterns] = weakref.WeakSet()
        self._start_over()

    def _start_over(self) -> None:
        none = np.zeros(0, np.int32)
        self._lengths: set[int] = set()  # of prefixes, in bytes
        self._prefixes, self._phrases = none, none
        self._words, self._word_start = none, np.zeros(1, np.int64)  # of phrases, one after another
        self._heads, self._firsts = none, none
        self._links, self._n_links, self._n_linked = np.zeros((0, 2), np.int32), 0, 0
        self._steps, self._states = np.full(LEAST_STEPS, NOTHING, np.int64), np.zeros(LEAST_STEPS, np.int32)
        self._ends, self._counts = none, np.zeros(2, np.int64)

    def __len__(self) -> int:
        return self._prefixes.size + self._phrases.size

    @property
    def layout(self) -> PatternsLayout:
        """The arrays; ask again after every call that adds or frees words."""
        return PatternsLayout(
            self._heads, self._links, self._firsts, self._steps, self._states, self._ends, self._counts
        )

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.layout) if len(self) else 0

    def follow(self) -> NewPatterns:
        """What is told of all patterns that come from now on."""
        follower = NewPatterns()
        self._followers.add(follower)
        return follower

    def added(self, terms: Numbers, data: Bytes, starts: Starts) -> None:
        """These terms are new, and these are their keys."""
        kinds = self._kinds(data, starts)
        prefixes, phrases = terms[kinds == _PREFIX], terms[kinds == _PHRASE]
        if not (len(self) or prefixes.size or phrases.size):
            return
        self._make_room()
        self._link(terms, self._prefixes)
        self._add_prefixes(prefixes)
        self._add_phrases(phrases)
        if prefixes.size or phrases.size:
            for follower in self._followers:
                follower.came += [prefixes, phrases]

    def freed(self, terms: Numbers) -> None:
        """These terms are free; their keys can no longer be read. The words of phrases are freed after them."""
        if not len(self):
            return
        for follower in self._followers:
            follower.came = [new[~np.isin(new, terms)] for new in follower.came]
        stay = ~np.isin(self._phrases, terms)
        prefixes = self._prefixes[~np.isin(self._prefixes, terms)]
        wasteful = self._n_links > 2 * self._n_linked + LEAST_LINKS
        if stay.all() and prefixes.size == self._prefixes.size and not wasteful:
            self._heads[terms] = NOTHING
            return
        phrases, words, starts = self._phrases[stay], self._words[np.repeat(stay, self._n_words)], self._n_words[stay]
        self._start_over()
        self._add_prefixes(prefixes)
        self._lay(phrases, words, np.append(0, np.cumsum(starts)))
        self._n_linked = self._n_links

    def load(self) -> None:
        """The keys are others now."""
        self._start_over()
        numbers = self._keys.numbers()
        self.added(numbers, *self._keys.take(numbers))
        for follower in self._followers:
            follower.came = []

    def words_with(self, prefix: int) -> Numbers:
        """The words that start with a prefix."""
        found = np.zeros(self._heads.size, bool)
        at, links = np.flatnonzero(self._heads != NOTHING), self._heads[self._heads != NOTHING]
        while at.size:
            rows = self._links[links]
            found[at[rows[:, 0] == prefix]] = True
            more = rows[:, 1] != NOTHING
            at, links = at[more], rows[more, 1]
        return np.flatnonzero(found).astype(np.int32)

    def is_prefix(self, term: int) -> bool:
        """Is it a prefix?"""
        return bool((self._prefixes == term).any())

    def words_of(self, term: int) -> Numbers:
        """The words of a phrase, in their order; none of what is no phrase."""
        rows = np.flatnonzero(self._phrases == term)
        at = int(rows[0]) if rows.size else 0
        return self._words[self._word_start[at] : self._word_start[at + rows.size]]

    def mark_words(self, used: npt.NDArray[np.bool_]) -> None:
        """Set used[word] for the words of every phrase in use."""
        used[self._words[np.repeat(used[self._phrases], self._n_words)]] = True

    @property
    def _n_words(self) -> Starts:
        return np.diff(self._word_start)

    @staticmethod
    def _kinds(data: Bytes, starts: Starts) -> Bytes:
        """_PREFIX, _PHRASE, or something else for words."""
        return np.where(starts[1:] > starts[:-1], np.append(data, 0)[starts[:-1]], _WORD)

    def _make_room(self) -> None:
        """An entry for every term, with room for as many again."""
        if self._heads.size < self._keys.capacity:
            more = np.full(2 * self._keys.capacity - self._heads.size, NOTHING, np.int32)
            self._heads, self._firsts = np.append(self._heads, more), np.append(self._firsts, more)

    # Prefixes

    def _add_prefixes(self, prefixes: Numbers) -> None:
        if prefixes.size:
            self._make_room()
            _, starts = self._keys.take(prefixes)
            self._lengths |= set((np.diff(starts) - 1).tolist())
            self._prefixes = np.append(self._prefixes, prefixes)
            self._link(self._keys.numbers(), prefixes)

    def _link(self, terms: Numbers, prefixes: Numbers) -> None:
        """Link those of the terms that are words with those of the prefixes that they start with."""
        if not (terms.size and prefixes.size):
            return
        wanted = np.zeros(self._keys.capacity, bool)
        wanted[prefixes] = True
        data, starts = self._keys.take(terms)
        kinds, lengths = self._kinds(data, starts), np.diff(starts)
        is_word = (kinds != _PREFIX) & (kinds != _PHRASE)
        for length in sorted(self._lengths):
            long = np.flatnonzero(is_word & (lengths >= length))
            keys = np.full((long.size, length + 1), _PREFIX, np.uint8)
            keys[:, 1:] = data[starts[:-1][long][:, None] + np.arange(length)]
            found = self._keys.find_many(keys.reshape(-1), np.arange(long.size + 1) * (length + 1))
            hits = np.flatnonzero(found != NOTHING)
            hits = hits[wanted[found[hits]]]
            self._push(terms[long[hits]], found[hits])

    def _push(self, words: Numbers, prefixes: Numbers) -> None:
        """Link words, all different, with a prefix each."""
        first, end = self._n_links, self._n_links + words.size
        if end > len(self._links):
            self._links = np.append(self._links, np.zeros((end, 2), np.int32), axis=0)
        self._links[first:end, 0], self._links[first:end, 1] = prefixes, self._heads[words]
        self._heads[words] = np.arange(first, end)
        self._n_links = end

    # Phrases

    def _add_phrases(self, phrases: Numbers) -> None:
        if not phrases.size:
            return
        data, starts = self._keys.take(phrases)
        splits = data == _SPACE
        splits[starts[:-1]] = True  # the byte that says that it is a phrase
        firsts = np.flatnonzero(splits)
        ends = np.append(firsts[1:], data.size)
        word_start = np.append(0, np.cumsum(ends - firsts - 1))
        words = self._enter(data[~splits], word_start)
        self._lay(phrases, words, np.append(np.searchsorted(firsts, starts[:-1]), firsts.size))

    def _lay(self, phrases: Numbers, words: Numbers, starts: Starts) -> None:
        if not phrases.size:
            return
        self._make_room()
        n_states, n_steps = int(self._counts[N_STATES]) + words.size, int(self._counts[N_STEPS]) + words.size
        if n_states > self._ends.size:
            self._ends = np.append(self._ends, np.full(n_states, NOTHING, np.int32))
        if 2 * n_steps > self._steps.size:
            self._grow_steps(n_steps)
        lay_phrases(self.layout, phrases, words, starts)
        self._word_start = np.append(self._word_start, starts[1:] + self._words.size)
        self._phrases, self._words = np.append(self._phrases, phrases), np.append(self._words, words)

    def _grow_steps(self, n_steps: int) -> None:
        """Make room for this many steps and as many again; all ways are laid again, through other states."""
        size = 1 << (4 * n_steps).bit_length()
        self._steps, self._states = np.full(size, NOTHING, np.int64), np.zeros(size, np.int32)
        self._firsts[:], self._ends[:], self._counts[:] = NOTHING, NOTHING, 0
        lay_phrases(self.layout, self._phrases, self._words, self._word_start)
