"""Where every GPU-second of the pools went, from snapshots alone: `inventory` says who has what, `books` add it up."""
