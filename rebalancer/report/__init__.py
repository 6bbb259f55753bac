"""What a journal says of the GPUs: their bill, what lending was worth, and what would have been enough."""
