"""Fields of messages and the conditions that queries put on them: decoded, stored by slot, checked."""
