"""What the figures measure: each module has the cases of one part of Nearcast, and its rivals."""
