"""AP+-Tree: subscriptions that move, and the live messages that they find in the leaves that they move to.

`leaf_messages` files live messages with the leaves that they reach, `leaf_lists` maintains these lists. When a
subscription moves, `refile` finds the leaves that its entries leave, enter and stay in, and `region_diff` compares
their lists with the old and the new region. `answers` makes changes of that, and asks the message index where a list is
not complete. `velocity` averages how subscriptions move; by that `move_cost` makes cuts by space more expensive.
"""
