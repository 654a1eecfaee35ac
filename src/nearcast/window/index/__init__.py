"""The index of live messages: finds them by words and place.

The index is log-structured, like Lucene's. Arrivals go to a short list of **recent** messages; when that is full it is
written as a **segment**, merged with the segments before it that are not larger. Segments are immutable. Whether a
message lives is not stored here: it is read from the message's row.

Inside a segment messages lie along a Hilbert curve. A message's position is its rank; 128 ranks make a leaf, 16 leaves
a node, and so on up to the root. Every word has a list of postings by rank, so that the postings of a node are a range
of the list, and long lists have skips that give these ranges and the largest weight in each.

- `index`: `MessageIndex`, which owns the arrays, merges segments, and is asked.
- `segments`: the records, and the kernels that write a segment; `pool` allocates the arrays' ranges.
- `query`: what is asked and as of when; bounds and exact keys.
- `search`: one search, in three steps: `rare_words` tries the recent messages and those of rare words one by one;
  `postings` looks up the other words; `nodes` visits nodes best first, and `leaves` the messages in them. `heaps` holds
  what was found and what is next.
- `candidates`: messages by one word and a box, unordered, for `Within` and `Similar`.
- `brute_force`: the same questions answered by trying every message; the judge in tests.
- `invariants`: assertions on all arrays.
"""
