"""What is done about it: moves past the guards, node grants, and the numbers to write."""
