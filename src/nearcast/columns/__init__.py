"""Model objects and Arrow tables become rows: the only door to kernels."""
