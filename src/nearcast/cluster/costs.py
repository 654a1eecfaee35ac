"""What can touch subscriptions goes in; what each is expected to cost comes out, in nanoseconds of CPU per message.

Three models, after [DKMSKS]: by words (`keyword_costs`), by places (`space_costs`) and by both (`weigh_in_box`). Each
counts, in the sample, the messages that would touch a subscription, and multiplies their share with what a touch
costs a subscription of its kind.
"""

from __future__ import annotations

import math

import numpy as np

from nearcast.cluster.sample import Sample, count_word, count_words
from nearcast.cluster.touching import KINDS, Touching, shares_of
from nearcast.columns.arena import Floats
from nearcast.jit import kernel

# Nanoseconds of CPU for each expected touch, by kind.
TOUCH_NS = {"within": 100.0, "similar": 100.0, "topk": 100.0, "nearest_all": 100.0, "nearest_any": 100.0}
UNITS = np.array([TOUCH_NS[kind] for kind in KINDS])


@kernel
def weigh_words(found, members, counts, n, units, costs):
    """Cost of each member: what a touch of it costs, times the shares of n messages that hold its words, summed.

    `counts` says how many hold each word; returns the sum of all costs.

    Paper: [DKMSKS] equations 1 and 5, which differ in what is counted.
    Departs: see `touching.shares_of`; and a `Similar` that place alone can satisfy is touched by such messages too.
    """
    total = 0.0
    for i in members:
        touches = found.alone[i]
        for j in range(found.word_start[i], found.word_start[i + 1]):
            touches += (1 + counts[found.words[j]]) / (1 + n)
        costs[i] = units[found.kinds[i]] * touches
        total += costs[i]
    return total


@kernel
def enclose(found, members):
    """The box around all members' boxes: R."""
    x0, y0, x1, y1 = math.inf, math.inf, -math.inf, -math.inf
    for i in members:
        x0, y0 = min(x0, found.boxes[i, 0]), min(y0, found.boxes[i, 1])
        x1, y1 = max(x1, found.boxes[i, 2]), max(y1, found.boxes[i, 3])
    return x0, y0, x1, y1


@kernel
def weigh_in_box(found, members, sample, box, counts, units, costs):
    """Cost of each member when all of them are touched by what lies in one box; returns their sum.

    `counts`, one for each word and one more, are all 0 before and after.

    Paper: [DKMSKS] section 4.1, equations 4 to 6.
    """
    count_words(sample, box, counts, 1)
    total = weigh_words(found, members, counts, sample.ys.size, units, costs)
    count_words(sample, box, counts, -1)
    return total


@kernel
def weigh_each(found, members, sample, units, costs):
    """Cost of each member when it is touched by what lies in its own box."""
    n_terms = sample.list_start.size - 1
    for i in members:
        box = (found.boxes[i, 0], found.boxes[i, 1], found.boxes[i, 2], found.boxes[i, 3])
        touches = found.alone[i]
        for j in range(found.word_start[i], found.word_start[i + 1]):
            n = count_word(sample, found.words[j], box) if found.words[j] < n_terms else 0
            touches += (1 + n) / (1 + sample.ys.size)
        costs[i] = units[found.kinds[i]] * touches


def keyword_costs(found: Touching, sample: Sample) -> Floats:
    """Cost by words alone; whoever a place can touch without a word is touched by every message.

    Paper: [DKMSKS] section 3.1.
    """
    costs = np.zeros(found.rows.size)
    anywhere = found._replace(alone=(found.alone > 0.0).astype(np.float64))
    weigh_words(anywhere, np.arange(costs.size), np.append(sample.holding, 0), sample.n, UNITS, costs)
    return costs


def space_costs(found: Touching, sample: Sample) -> Floats:
    """Cost by places alone, each subscription by itself.

    Paper: [DKMSKS] section 3.2, new subscriptions.
    """
    shares = np.zeros(found.rows.size)
    shares_of(sample.layout, found.boxes, np.arange(shares.size), shares)
    return UNITS[found.kinds] * shares


def own_costs(found: Touching, sample: Sample) -> Floats:
    """Cost by words and places, each subscription by itself."""
    costs = np.zeros(found.rows.size)
    weigh_each(found, np.arange(costs.size), sample.layout, UNITS, costs)
    return costs
