"""Events become updates: one package for each query kind, and what they share."""
