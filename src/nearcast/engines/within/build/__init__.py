"""Building an AP-Tree: lists of entries become nodes, cut by words or by space, whichever costs a message less.

`recent_messages` keeps a sample of the messages that arrive. From it and from the entries themselves `keyword_cuts`
finds cuts of words and `space_grid` lines of a grid; `partition_cost` estimates what either costs. `tasks` does this
node by node from the top, and can stop after any number of rows. `builder` owns what the kernels work on (`layout`),
grows it and resumes them.
"""
