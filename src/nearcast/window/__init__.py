"""The live messages: what lives, in which order it leaves, and how it is found again by words and place."""
