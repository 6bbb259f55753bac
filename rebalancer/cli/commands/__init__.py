"""One module per command; each imports what is heavy inside its function."""
