"""Standing questions over a stream of geo-tagged text, answered at once and exactly."""
