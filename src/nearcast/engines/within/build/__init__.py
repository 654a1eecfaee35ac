"""How a tree is built: lists of entries become nodes, where words or space cut them, by what each costs."""
