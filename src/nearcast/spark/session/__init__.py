"""Sessions of Spark: our own with its Java, somebody else's looked at, workers that are born warm."""
