"""Words become term numbers and weights.

A text, or a list of keywords, enters as one row of an Arrow column and leaves as a short row of numbers:

1. `words` folds every text (NFKC, then case) and cuts it at everything that is not a letter or digit. It does so for
   a whole column at once, and gives the words as one run of UTF-8 bytes with the places where words and rows start.
2. `vocabulary` gives every word a number, its *term*, and every row its distinct terms with their counts. Terms are
   numbers of this process alone: another shard numbers the same words differently. Whatever is summed over a row is
   therefore summed in the order of the words' UTF-8 bytes, in which `vocabulary` puts every row.
3. `weights` says how much a word counts: ln(1 + N / df) over a corpus that was fixed beforehand, 1 without one.
4. `similarity` turns what two rows share into one number, by one of five measures.

Beneath them, `key_table` has a table of byte strings and their numbers in a few flat arrays (`key_kernels`); ids live
in one too, because twenty million Python strings would not fit. `strings` converts between Arrow strings and those
bytes.
"""
