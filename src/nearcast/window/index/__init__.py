"""The index of live messages: how they are found again by words and place."""
