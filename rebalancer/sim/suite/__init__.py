"""The suite: which scenarios are played, how peers are tuned, and the table that comes of it."""
